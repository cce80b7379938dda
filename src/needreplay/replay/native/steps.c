/* n-step windows of several environments: the twin of ``_accumulate`` in replay/episodes.py. */
#include "native.h"

#include <string.h>

enum { HEAD, HELD, LAST, ENDED, EPISODE, TIME, STATE }; /* columns of ``state``, and how many there are */
enum { TERMINATED, TRUNCATED, SKIPPED, FLAGS };

static int
is_block(PyArrayObject *array, int type, npy_intp length)
{
    return PyArray_TYPE(array) == type && PyArray_ISCARRAY(array) && PyArray_SIZE(array) == length;
}

int
bind_steps(Steps *self, PyObject *given, npy_intp stride, npy_intp capacity)
{
    PyObject *columns;
    PyArrayObject *step, *pending, *rewards, *flags, *state, *slots, *previous, *sources,
        *following, *places;
    PyTypeObject *array = &PyArray_Type;
    if (!PyArg_ParseTuple(given, "O!O!O!O!O!O!O!O!O!O!O!nnnndp", &PyDict_Type, &columns, array, &step,
                          array, &pending, array, &rewards, array, &flags, array, &state, array,
                          &slots, array, &previous, array, &sources, array, &following,
                          array, &places, &self->next_from, &self->next_to, &self->reward_at, &self->discount_at,
                          &self->discount, &self->skips_resets)) {
        return -1;
    }
    npy_intp n_envs = PyArray_NDIM(rewards) == 2 ? PyArray_DIM(rewards, 0) : 0;
    npy_intp n_step = n_envs > 0 ? PyArray_DIM(rewards, 1) - 1 : 0;
    npy_intp pairs = n_envs * n_step;
    if (pairs < 1 || !is_block(rewards, NPY_FLOAT64, n_envs * (n_step + 1)) ||
        !is_block(step, NPY_UINT8, n_envs * stride) ||
        !is_block(pending, NPY_UINT8, pairs * stride) ||
        !is_block(flags, NPY_BOOL, n_envs * FLAGS) || !is_block(state, NPY_INT64, n_envs * STATE) ||
        !is_block(slots, NPY_INT64, pairs) || !is_block(previous, NPY_INT64, pairs) ||
        !is_block(sources, NPY_INT64, pairs) || !is_block(following, NPY_INT64, capacity) ||
        !is_block(places, NPY_INT64, 2 * capacity)) {
        PyErr_SetString(PyExc_ValueError, "The arrays of episodes do not fit each other.");
        return -1;
    }
    self->n_envs = n_envs;
    self->n_step = n_step;
    self->stride = stride;
    self->step = PyArray_DATA(step);
    self->pending = PyArray_DATA(pending);
    self->rewards = PyArray_DATA(rewards);
    self->flags = PyArray_DATA(flags);
    self->state = PyArray_DATA(state);
    self->slots = PyArray_DATA(slots);
    self->previous = PyArray_DATA(previous);
    self->sources = PyArray_DATA(sources);
    self->following = PyArray_DATA(following);
    self->places = PyArray_DATA(places);
    return bind_columns(&self->columns, columns);
}

/* Write the window of environment ``e`` from its step ``head`` on, of ``held`` steps, to ``row``. */
static void
write_window(const Steps *self, npy_intp e, npy_intp head, npy_intp held, int terminated, char *row)
{
    const double *rewards = self->rewards + e * (self->n_step + 1);
    double total = 0.0, power = 1.0;
    for (npy_intp k = head + held - 1; k >= head; k--) {
        total = rewards[k < self->n_step ? k : k - self->n_step] + self->discount * total;
        power *= self->discount;
    }
    float reward = (float)total, discount = terminated ? 0.0f : (float)power;
    size_t from = (size_t)self->next_from, to = (size_t)self->next_to;
    memcpy(row, self->pending + (e * self->n_step + head) * self->stride, from);
    memcpy(row + from, self->step + e * self->stride + from, to - from);
    memcpy(row + self->reward_at, &reward, sizeof(reward));
    memcpy(row + self->discount_at, &discount, sizeof(discount));
}

/* The number of the episode that began last. */
static npy_int64
newest_episode(const Steps *self)
{
    npy_int64 newest = -1;
    for (npy_intp e = 0; e < self->n_envs; e++) {
        npy_int64 own = self->state[e * STATE + EPISODE];
        newest = own > newest ? own : newest;
    }
    return newest;
}

npy_intp
add_step(Steps *self, char *rows, npy_intp capacity, npy_int64 first_id)
{
    npy_intp n_step = self->n_step, stored = 0;
    npy_int64 slot = first_id % capacity;
    for (npy_intp e = 0; e < self->n_envs; e++) {
        write_row(&self->columns, e, e);
        const npy_bool *flags = self->flags + e * FLAGS;
        npy_int64 *state = self->state + e * STATE;
        int ended = flags[TERMINATED] || flags[TRUNCATED];
        if (self->skips_resets && state[ENDED]) {
            state[ENDED] = 0;
            continue;
        }
        npy_int64 head = state[HEAD], held = state[HELD];
        npy_int64 place = head + held < n_step ? head + held : head + held - n_step;
        double *rewards = self->rewards + e * (n_step + 1);
        memcpy(self->pending + (e * n_step + place) * self->stride, self->step + e * self->stride,
               (size_t)self->next_from);
        rewards[place] = rewards[n_step];
        held++;
        while (held == n_step || (ended && held > 0)) {
            write_window(self, e, head, held, flags[TERMINATED], rows + slot * self->stride);
            npy_int64 id = first_id + stored, previous = state[LAST];
            self->following[slot] = -1;
            if (previous >= 0 && id - previous < capacity) {
                self->following[previous % capacity] = id;
            }
            if (previous < 0) {
                state[EPISODE] = newest_episode(self) + 1;
                state[TIME] = -1;
            }
            self->places[2 * slot] = state[EPISODE];
            self->places[2 * slot + 1] = ++state[TIME];
            self->slots[stored] = slot;
            self->previous[stored] = previous;
            self->sources[stored] = e * n_step + head;
            state[LAST] = id;
            stored++;
            slot = slot + 1 < capacity ? slot + 1 : 0;
            head = head + 1 < n_step ? head + 1 : 0;
            held--;
        }
        state[HEAD] = head;
        state[HELD] = held;
        state[ENDED] = ended;
        if (ended) {
            state[LAST] = -1;
        }
    }
    return stored;
}
