"""The EVB agent of Mattar & Daw (2018): replay by gain x need."""
