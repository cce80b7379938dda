/* The extension module: its two types, and the digest of the source that they were built from. */
#define NEEDREPLAY_NATIVE_MODULE
#include "native.h"

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "needreplay.replay.native._native",
    .m_size = -1,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    import_array();
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyModule_AddType(made, &GainsType) < 0 ||
        PyModule_AddType(made, &ColumnsType) < 0 ||
        PyModule_AddStringConstant(made, "source", NEEDREPLAY_SOURCE) < 0) {
        Py_XDECREF(made);
        return NULL;
    }
    return made;
}
