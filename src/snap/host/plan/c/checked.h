/* Launches with every check. */

/* Sizes and numbers for which shapes and `where=` hold; of each tensor map its extents, the address it was last asked
   for, and its bytes.  Counted, since several threads may be at it. */
typedef struct {
    int users, count;
    PyObject *extents;
    uint64_t *address;
    PyObject **bytes;
    int64_t words[];
} Known;

typedef struct {
    Called called;
    Target target;
    Reader *reader;
    int count, map_count, known_count, remember;
    int32_t device_type, device;
    Param params[MOST_VALUES];
    uint16_t map_param[MOST_VALUES];
    PyObject *other, *fits, *maps, *words;    /* fits, words: NULL where there is nothing to ask */
    PyObject *current_device, *device_number; /* current_device: NULL where there is no other GPU */
    PyObject *current_stream;                 /* NULL: by stream_of; that is NULL, too: `stream` */
    int32_t (*stream_of)(int32_t, void **);
    void *stream;
    Known *known[MOST_KNOWN]; /* what was used last comes first */
} Checked;

static void release(Checked *self, Known *known)
{
    if (known == NULL || --known->users > 0)
        return;
    for (int k = 0; k < self->map_count; k++)
        Py_XDECREF(known->bytes[k]);
    Py_DECREF(known->extents);
    PyMem_Free(known);
}

static Known *known_of(Checked *self, const Key *key, PyObject *extents)
{
    size_t words = 8 * (size_t)key->count, maps = (size_t)self->map_count;
    Known *made = PyMem_Calloc(1, sizeof(Known) + words + maps * (sizeof(uint64_t) + sizeof(PyObject *)));
    if (made == NULL)
        return NULL;
    made->users = 1;
    made->count = key->count;
    made->extents = Py_NewRef(extents);
    memcpy(made->words, key->words, words);
    made->address = (uint64_t *)(made->words + key->count);
    made->bytes = (PyObject **)(made->address + maps);
    return made;
}

/* What is known for this key, with one more user; NULL where nothing is. */
static Known *find(Checked *self, const Key *key)
{
    for (int k = 0; k < self->known_count; k++) {
        Known *known = self->known[k];
        if (known->count == key->count && !memcmp(known->words, key->words, 8 * (size_t)key->count)) {
            memmove(self->known + 1, self->known, (size_t)k * sizeof(Known *));
            self->known[0] = known;
            known->users++;
            return known;
        }
    }
    return NULL;
}

static void keep(Checked *self, Known *known)
{
    Known *last = NULL;
    if (self->known_count == MOST_KNOWN)
        last = self->known[--self->known_count];
    memmove(self->known + 1, self->known, (size_t)self->known_count * sizeof(Known *));
    self->known[0] = known;
    self->known_count++;
    known->users++;
    release(self, last);
}

/* The arguments of `fits`, of every parameter that it asks about: a number, an array's bytes, or bytes and shape. */
static PyObject *asked_of(Checked *self, PyObject *const *args, const Range *ranges, const Key *key)
{
    PyObject *asked = PyList_New(0);
    for (int k = 0, word = 0; asked != NULL && k < self->count; k++) {
        const Param *param = &self->params[k];
        if (param->asked == NOT_ASKED)
            continue;
        PyObject *one = param->kind == 'P' ? PyLong_FromUnsignedLongLong(ranges[k].bytes) : Py_NewRef(args[k]);
        if (one == NULL || PyList_Append(asked, one) < 0)
            Py_CLEAR(asked);
        Py_XDECREF(one);
        int64_t dim = param->asked == SHAPE && param->kind == 'P' ? key->words[word] : 0;
        word++;
        if (asked == NULL || param->asked != SHAPE || param->kind != 'P')
            continue;
        PyObject *shape = PyTuple_New((Py_ssize_t)dim);
        for (int64_t d = 0; shape != NULL && d < dim; d++) {
            PyObject *size = PyLong_FromLongLong(key->words[word + d]);
            if (size == NULL)
                Py_CLEAR(shape);
            else
                PyTuple_SET_ITEM(shape, (Py_ssize_t)d, size);
        }
        word += (int)dim;
        if (shape == NULL || PyList_Append(asked, shape) < 0)
            Py_CLEAR(asked);
        Py_XDECREF(shape);
    }
    PyObject *given = asked == NULL ? NULL : PyList_AsTuple(asked);
    Py_XDECREF(asked);
    return given;
}

/* What is known of arguments with this key: found, or asked for.  `fits` gives None where they do not fit, else the
   extents of each tensor map. */
static Outcome fitting(Checked *self, PyObject *const *args, const Range *ranges, const Key *key, Known **found)
{
    *found = self->remember ? find(self, key) : NULL;
    if (*found != NULL)
        return MADE;
    PyObject *asked = asked_of(self, args, ranges, key);
    PyObject *extents = asked == NULL ? NULL : PyObject_CallObject(self->fits, asked);
    Py_XDECREF(asked);
    if (extents == NULL)
        return after_error();
    if (PyTuple_Check(extents) && PyTuple_GET_SIZE(extents) == self->map_count)
        *found = known_of(self, key, extents);
    Py_DECREF(extents);
    if (*found == NULL)
        return OTHERS;
    if (self->remember)
        keep(self, *found);
    return MADE;
}

static Outcome add_maps(Checked *self, Known *known, const Range *ranges, unsigned char *packed)
{
    for (int k = 0; k < self->map_count; k++) {
        uint64_t address = ranges[self->map_param[k]].address;
        if (known->bytes[k] == NULL || known->address[k] != address) {
            PyObject *key = Py_BuildValue("KO", (unsigned long long)address, PyTuple_GET_ITEM(known->extents, k));
            PyObject *made = key == NULL ? NULL : PyObject_GetItem(PyTuple_GET_ITEM(self->maps, k), key);
            Py_XDECREF(key);
            if (made == NULL)
                return after_error();
            if (!PyBytes_CheckExact(made) || PyBytes_GET_SIZE(made) != MAP_BYTES) {
                Py_DECREF(made);
                return OTHERS;
            }
            known->address[k] = address;
            PyObject *before = known->bytes[k];
            known->bytes[k] = made;
            Py_XDECREF(before);
        }
        memcpy(packed + self->target.at[self->count + k], PyBytes_AS_STRING(known->bytes[k]), MAP_BYTES);
    }
    return MADE;
}

static Outcome find_stream(Checked *self, void **stream)
{
    if (self->current_stream == NULL) {
        *stream = self->stream;
        return self->stream_of == NULL || !self->stream_of(self->device, stream) ? MADE : OTHERS;
    }
    PyObject *said = PyObject_CallOneArg(self->current_stream, self->device_number);
    if (said == NULL)
        return after_error();
    *stream = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(said);
    Py_DECREF(said);
    return PyErr_Occurred() ? after_error() : MADE;
}

static Outcome on_this_device(Checked *self)
{
    if (self->current_device == NULL)
        return MADE;
    PyObject *said = PyObject_CallNoArgs(self->current_device);
    if (said == NULL)
        return after_error();
    int overflow = 0;
    int same = PyLong_CheckExact(said) && PyLong_AsLongAndOverflow(said, &overflow) == self->device && !overflow;
    Py_DECREF(said);
    return same ? MADE : OTHERS;
}

/* The word of a cooperative grid's barrier, which follows all other values. */
static Outcome add_barrier(Checked *self, void *stream, unsigned char *packed)
{
    if (self->words == NULL)
        return MADE;
    PyObject *number = PyLong_FromVoidPtr(stream);
    PyObject *said = number == NULL ? NULL : PyObject_CallOneArg(self->words, number);
    Py_XDECREF(number);
    if (said == NULL)
        return after_error();
    unsigned long long word = PyLong_AsUnsignedLongLong(said);
    Py_DECREF(said);
    if (PyErr_Occurred())
        return after_error();
    memcpy(packed + self->target.at[self->count + self->map_count], &word, 8);
    return MADE;
}

/* Whether an array that the kernel may write shares memory with another one. */
static int overlapping(const Checked *self, const Range *ranges)
{
    for (int i = 0; i < self->count; i++)
        for (int j = 0; j < i && self->params[i].kind == 'P'; j++)
            if (self->params[j].kind == 'P' && !(self->params[i].constant && self->params[j].constant) &&
                ranges[i].address + ranges[i].bytes > ranges[j].address &&
                ranges[j].address + ranges[j].bytes > ranges[i].address)
                return 1;
    return 0;
}

static Outcome attempt(Checked *self, PyObject *const *args)
{
    _Alignas(64) unsigned char packed[MOST_BYTES];
    Range ranges[MOST_VALUES];
    Key key;
    Known *known = NULL;
    void *stream = NULL;
    key.count = 0;
    for (int k = 0; k < self->count; k++) {
        const Param *param = &self->params[k];
        unsigned char *to = packed + self->target.at[k];
        if (param->kind == 'P') {
            Outcome read =
                read_tensor(&self->reader->reads, param, self->device_type, self->device, args[k], &ranges[k], &key);
            if (read != MADE)
                return read;
            memcpy(to, &ranges[k].address, 8);
        } else {
            int64_t unused, *word = &unused;
            if (param->asked != NOT_ASKED) {
                if (key.count >= MOST_WORDS)
                    return OTHERS;
                word = &key.words[key.count++];
            }
            if (!pack_number(param->kind, args[k], to, param->asked != NOT_ASKED && self->remember, word))
                return OTHERS;
        }
    }
    if (overlapping(self, ranges))
        return OTHERS;
    Outcome outcome = on_this_device(self);
    if (outcome == MADE && self->fits != NULL)
        outcome = fitting(self, args, ranges, &key, &known);
    if (outcome == MADE)
        outcome = find_stream(self, &stream);
    if (outcome == MADE && known != NULL)
        outcome = add_maps(self, known, ranges, packed);
    if (outcome == MADE)
        outcome = add_barrier(self, stream, packed);
    release(self, known);
    if (outcome == MADE)
        outcome = launched(&self->target, stream, packed);
    for (int k = 0; k < self->count && outcome == MADE; k++)
        if (self->params[k].kind == 'P' && !self->params[k].constant)
            raise_version(&self->reader->reads, args[k]);
    return outcome;
}

static PyObject *checked_call(PyObject *callable, PyObject *const *args, size_t given, PyObject *names)
{
    Checked *self = (Checked *)callable;
    Outcome outcome = OTHERS;
    if (PyVectorcall_NARGS(given) == self->count && (names == NULL || PyTuple_GET_SIZE(names) == 0))
        outcome = attempt(self, args);
    if (outcome == MADE)
        Py_RETURN_NONE;
    if (outcome == RAISED)
        return NULL;
    if (self->other == NULL)
        return PyErr_Format(PyExc_RuntimeError, "a launch after its kernel is gone");
    return PyObject_Vectorcall(self->other, args, given, names);
}

/* Only what can lead back here, and what is known: all else is of use until the end. */
static void checked_drop(PyObject *object)
{
    Checked *self = (Checked *)object;
    while (self->known_count)
        release(self, self->known[--self->known_count]);
    Py_CLEAR(self->other);
}

static const Kind checked_kind = {
    checked_drop,
    {offsetof(Checked, target.failed), offsetof(Checked, reader), offsetof(Checked, other), offsetof(Checked, fits), offsetof(Checked, maps), offsetof(Checked, words),
     offsetof(Checked, current_device), offsetof(Checked, device_number), offsetof(Checked, current_stream)},
};

static PyObject *or_null(PyObject *given)
{
    return given == Py_None ? NULL : Py_NewRef(given);
}

/* params: of each (letter, asked, constant, dtype, bytes, widest); maps: of each tensor map its parameter and what has
   it; stream: the address of a C function, a function of Python, or None with a fixed handle. */
static PyObject *checked_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *target, *reader, *params, *maps, *other, *fits, *words, *current_device, *current_stream;
    unsigned long long stream_of, stream;
    int device_type, device, remember;
    if (names != NULL && PyDict_GET_SIZE(names)) {
        PyErr_SetString(PyExc_TypeError, "takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(given, "O!O!O!O!OOpOiiOOKK", &PyTuple_Type, &target, reader_type, &reader,
                          &PyTuple_Type, &params, &PyTuple_Type, &maps, &other, &fits,
                          &remember, &words, &device_type, &device, &current_device, &current_stream, &stream_of,
                          &stream))
        return NULL;
    Checked *self = called_alloc(type, checked_call, &checked_kind);
    if (self == NULL)
        return NULL;
    self->reader = (Reader *)Py_NewRef(reader);
    self->other = Py_NewRef(other);
    self->fits = or_null(fits);
    self->words = or_null(words);
    self->current_device = or_null(current_device);
    self->current_stream = or_null(current_stream);
    self->remember = remember;
    self->device_type = device_type;
    self->device = device;
    self->stream_of = (int32_t (*)(int32_t, void **))(uintptr_t)stream_of;
    self->stream = (void *)(uintptr_t)stream;
    self->count = (int)PyTuple_GET_SIZE(params);
    self->device_number = PyLong_FromLong(device);
    self->maps = PyTuple_New(PyTuple_GET_SIZE(maps));
    if (self->device_number == NULL || self->maps == NULL || !target_of(&self->target, target))
        goto failed;
    if (self->count + PyTuple_GET_SIZE(maps) + (self->words != NULL) != self->target.count) {
        PyErr_SetString(PyExc_ValueError, "as many values as parameters, tensor maps and the barrier's word");
        goto failed;
    }
    for (int k = 0; k < self->count; k++) {
        Param *param = &self->params[k];
        int letter, asked;
        long long bytes, widest;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(params, k), "CipiLL", &letter, &asked, &param->constant, &param->dtype,
                              &bytes, &widest))
            goto failed;
        if (letter <= 0 || letter > 127 || widest < 1 || asked < NOT_ASKED || asked > SHAPE) {
            PyErr_SetString(PyExc_ValueError, "no such parameter");
            goto failed;
        }
        param->kind = (char)letter;
        param->asked = (Asked)asked;
        param->bytes = bytes;
        param->widest = widest;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(maps); k++) {
        int at;
        PyObject *has;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(maps, k), "iO", &at, &has))
            goto failed;
        if (at < 0 || at >= self->count || self->params[at].kind != 'P') {
            PyErr_SetString(PyExc_ValueError, "a tensor map is of an array");
            goto failed;
        }
        PyTuple_SET_ITEM(self->maps, k, Py_NewRef(has));
        self->map_param[k] = (uint16_t)at;
        self->map_count = (int)k + 1;
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static PyMemberDef checked_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Called, vectorcall), READONLY, NULL},
    {"other", T_OBJECT, offsetof(Checked, other), READONLY, "what launches all else"},
    {"known", T_INT, offsetof(Checked, known_count), READONLY, "choices of sizes and numbers that are known to fit"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot checked_slots[] =
    CALLED_SLOTS("A launch with every check, of tensors of torch and numbers.", checked_new, checked_members);
static PyType_Spec checked_spec = {"snap.native.Checked", sizeof(Checked), 0, CALLED_FLAGS, checked_slots};
