/* Launches whose arguments the caller has compared. */

typedef struct {
    Called called;
    Target target;
    int count, bytes;
    uint16_t at[MOST_VALUES]; /* where each argument goes */
    unsigned char image[MOST_BYTES];
} Trusted;

/* (stream, *values): of each an integer, or a tensor map's bytes. */
static PyObject *trusted_call(PyObject *callable, PyObject *const *args, size_t given, PyObject *names)
{
    Trusted *self = (Trusted *)callable;
    _Alignas(64) unsigned char packed[MOST_BYTES];
    if (PyVectorcall_NARGS(given) != self->count + 1 || (names != NULL && PyTuple_GET_SIZE(names)))
        return PyErr_Format(PyExc_TypeError, "a launch of a stream and %d values", self->count);
    unsigned long long stream = PyLong_AsUnsignedLongLong(args[0]);
    if (stream == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    memcpy(packed, self->image, (size_t)self->bytes);
    for (int k = 0; k < self->count; k++) {
        PyObject *arg = args[k + 1];
        if (PyBytes_CheckExact(arg)) {
            if (PyBytes_GET_SIZE(arg) != MAP_BYTES || self->at[k] + MAP_BYTES > self->bytes)
                return PyErr_Format(PyExc_ValueError, "a tensor map has %d bytes", MAP_BYTES);
            memcpy(packed + self->at[k], PyBytes_AS_STRING(arg), MAP_BYTES);
        } else {
            unsigned long long value = PyLong_AsUnsignedLongLong(arg);
            if (value == (unsigned long long)-1 && PyErr_Occurred())
                return NULL;
            memcpy(packed + self->at[k], &value, 8);
        }
    }
    if (launched(&self->target, self->target.config.shared, (void *)(uintptr_t)stream, packed) != MADE)
        return NULL;
    Py_RETURN_NONE;
}

static const Kind trusted_kind = {NULL, {offsetof(Trusted, target.failed)}};

/* image: all values, packed; offsets: where the arguments go. */
static PyObject *trusted_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *target, *offsets;
    Py_buffer image;
    if (!PyArg_ParseTuple(given, "O!y*O!", &PyTuple_Type, &target, &image, &PyTuple_Type, &offsets))
        return NULL;
    Trusted *self = called_alloc(type, trusted_call, &trusted_kind);
    if (self == NULL || !target_of(&self->target, target))
        goto failed;
    self->count = (int)PyTuple_GET_SIZE(offsets);
    if (image.len > MOST_BYTES) {
        PyErr_SetString(PyExc_ValueError, "too many bytes");
        goto failed;
    }
    self->bytes = (int)image.len;
    memcpy(self->image, image.buf, (size_t)image.len);
    if (!offsets_of(self->at, offsets, image.len - 8))
        goto failed;
    PyBuffer_Release(&image);
    return (PyObject *)self;
failed:
    PyBuffer_Release(&image);
    Py_XDECREF(self);
    return NULL;
}

static PyType_Slot trusted_slots[] = CALLED_SLOTS(
    "A launch of a stream, addresses and tensor maps, nothing of which is checked.", trusted_new, called_members);
static PyType_Spec trusted_spec = {"snap.native.Trusted", sizeof(Trusted), 0, CALLED_FLAGS, trusted_slots};
