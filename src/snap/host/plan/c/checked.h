/* Launches with every check. */

typedef struct {
    Called called;
    Target target;
    Reader *reader;
    int count, map_count;
    int32_t device_type, device;
    Param params[MOST_VALUES];
    uint16_t map_param[MOST_VALUES];
    PyObject *other, *fits, *words;           /* fits, words: NULL where there is nothing to ask */
    PyObject *known;                          /* of sizes and numbers what `fits` said; NULL: it is asked every time */
    Key last;                                 /* those of the launch before, */
    PyObject *last_fit;                       /* and what is known of them, or NULL */
    PyObject *current_device, *device_number; /* current_device: NULL where there is no other GPU */
    PyObject *current_stream;                 /* NULL: by stream_of; that is NULL, too: `stream` */
    int32_t (*stream_of)(int32_t, void **);
    void *stream;
} Checked;

/* The arguments of `fits`, of every parameter that it asks about: a number, an array's bytes or its shape. */
static PyObject *asked_of(Checked *self, PyObject *const *args, const Key *key)
{
    PyObject *asked = PyList_New(0);
    for (int k = 0, word = 0; asked != NULL && k < self->count; k++) {
        const Param *param = &self->params[k];
        if (param->asked == NOT_ASKED)
            continue;
        int64_t size = key->words[word++];
        PyObject *one = param->kind != 'P'       ? Py_NewRef(args[k])
                        : param->asked == BYTES ? PyLong_FromLongLong(size)
                                                : PyTuple_New((Py_ssize_t)size);
        if (one != NULL && param->kind == 'P' && param->asked == SHAPE)
            for (int64_t d = 0; d < size; d++)
                PyTuple_SET_ITEM(one, (Py_ssize_t)d, PyLong_FromLongLong(key->words[word++]));
        if (one == NULL || PyErr_Occurred() || PyList_Append(asked, one) < 0)
            Py_CLEAR(asked);
        Py_XDECREF(one);
    }
    PyObject *given = asked == NULL ? NULL : PyList_AsTuple(asked);
    Py_XDECREF(asked);
    return given;
}

/* What is known of arguments with this key: found, or asked for.  `fits` gives None where they do not fit, else a
   tuple: the bytes of shared memory, and of each tensor map what has it for an address. */
static Outcome fitting(Checked *self, PyObject *const *args, const Key *key, PyObject **found)
{
    PyObject *words = NULL;
    size_t size = offsetof(Key, words) + 8 * (size_t)key->count;
    if (self->last_fit != NULL && !memcmp(key, &self->last, size)) {
        *found = Py_NewRef(self->last_fit);
        return MADE;
    }
    if (self->known != NULL) {
        words = PyBytes_FromStringAndSize((const char *)key->words, 8 * (Py_ssize_t)key->count);
        *found = words == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(self->known, words));
    }
    if (*found == NULL && !PyErr_Occurred()) {
        PyObject *asked = asked_of(self, args, key);
        *found = asked == NULL ? NULL : PyObject_CallObject(self->fits, asked);
        Py_XDECREF(asked);
        if (*found != NULL && (!PyTuple_Check(*found) || PyTuple_GET_SIZE(*found) != 1 + self->map_count)) {
            Py_XDECREF(words);
            return OTHERS;
        }
        if (*found != NULL && self->known != NULL) {
            if (PyDict_GET_SIZE(self->known) >= MOST_KNOWN)
                PyDict_Clear(self->known);
            if (PyDict_SetItem(self->known, words, *found) < 0)
                Py_CLEAR(*found);
        }
    }
    Py_XDECREF(words);
    if (*found == NULL)
        return after_error();
    if (self->known != NULL) {
        memcpy(&self->last, key, size);
        Py_XSETREF(self->last_fit, Py_NewRef(*found));
    }
    return MADE;
}

static Outcome add_maps(Checked *self, PyObject *known, const Range *ranges, unsigned char *packed)
{
    for (int k = 0; k < self->map_count; k++) {
        PyObject *address = PyLong_FromUnsignedLongLong(ranges[self->map_param[k]].address);
        PyObject *map = address == NULL ? NULL : PyObject_GetItem(PyTuple_GET_ITEM(known, 1 + k), address);
        Py_XDECREF(address);
        if (map == NULL)
            return after_error();
        int right = PyBytes_CheckExact(map) && PyBytes_GET_SIZE(map) == MAP_BYTES;
        if (right)
            memcpy(packed + self->target.at[self->count + k], PyBytes_AS_STRING(map), MAP_BYTES);
        Py_DECREF(map);
        if (!right)
            return OTHERS;
    }
    return MADE;
}

/* What a function of Python says, which is an address or the like. */
static Outcome said_by(PyObject *function, PyObject *arg, uint64_t *number)
{
    PyObject *said = arg == NULL ? NULL : PyObject_CallOneArg(function, arg);
    if (said == NULL)
        return after_error();
    *number = PyLong_AsUnsignedLongLong(said);
    Py_DECREF(said);
    return PyErr_Occurred() ? after_error() : MADE;
}

static Outcome find_stream(Checked *self, void **stream)
{
    uint64_t number = (uintptr_t)self->stream;
    Outcome outcome = self->current_stream == NULL ? MADE : said_by(self->current_stream, self->device_number, &number);
    *stream = (void *)(uintptr_t)number;
    return self->stream_of == NULL || !self->stream_of(self->device, stream) ? outcome : OTHERS;
}

static Outcome on_this_device(Checked *self)
{
    PyObject *said = self->current_device == NULL ? NULL : PyObject_CallNoArgs(self->current_device);
    if (said == NULL)
        return self->current_device == NULL ? MADE : after_error();
    int same = PyObject_RichCompareBool(said, self->device_number, Py_EQ);
    Py_DECREF(said);
    return same < 0 ? after_error() : same ? MADE : OTHERS;
}

/* The word of a cooperative grid's barrier, which follows all other values. */
static Outcome add_barrier(Checked *self, void *stream, unsigned char *packed)
{
    if (self->words == NULL)
        return MADE;
    uint64_t word = 0;
    PyObject *number = PyLong_FromVoidPtr(stream);
    Outcome outcome = said_by(self->words, number, &word);
    Py_XDECREF(number);
    memcpy(packed + self->target.at[self->count + self->map_count], &word, 8);
    return outcome;
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
    PyObject *known = NULL;
    uint32_t shared = self->target.config.shared;
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
            if (!pack_number(param->kind, args[k], to, param->asked != NOT_ASKED && self->known != NULL, word))
                return OTHERS;
        }
    }
    if (overlapping(self, ranges))
        return OTHERS;
    Outcome outcome = on_this_device(self);
    if (outcome == MADE && self->fits != NULL)
        outcome = fitting(self, args, &key, &known);
    if (outcome == MADE)
        outcome = find_stream(self, &stream);
    if (outcome == MADE && known != NULL)
        outcome = add_maps(self, known, ranges, packed);
    if (outcome == MADE)
        outcome = add_barrier(self, stream, packed);
    if (outcome == MADE && known != NULL)
        shared = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(known, 0));
    Py_XDECREF(known);
    if (outcome == MADE)
        outcome = launched(&self->target, shared, stream, packed);
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

/* Only what can lead back here: all else is of use until the end. */
static void checked_drop(PyObject *object)
{
    Py_CLEAR(((Checked *)object)->other);
}

static const Kind checked_kind = {
    checked_drop,
    {offsetof(Checked, target.failed), offsetof(Checked, reader), offsetof(Checked, other), offsetof(Checked, fits),
     offsetof(Checked, known), offsetof(Checked, last_fit), offsetof(Checked, words), offsetof(Checked, current_device),
     offsetof(Checked, device_number), offsetof(Checked, current_stream)},
};

static PyObject *or_null(PyObject *given)
{
    return given == Py_None ? NULL : Py_NewRef(given);
}

/* params: a `Param` each, packed; maps: the parameter of each tensor map; known: a dictionary or None; stream_of: the
   address of a C function, or else current_stream: one of Python, or else stream: a fixed handle. */
static PyObject *checked_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *target, *reader, *maps, *other, *fits, *known, *words, *current_device, *current_stream;
    Py_buffer params;
    unsigned long long stream_of, stream;
    int device_type, device;
    if (!PyArg_ParseTuple(given, "O!O!y*O!OOOOiiOOKK", &PyTuple_Type, &target, reader_type, &reader, &params,
                          &PyTuple_Type, &maps, &other, &fits, &known, &words, &device_type, &device, &current_device,
                          &current_stream, &stream_of, &stream))
        return NULL;
    Checked *self = called_alloc(type, checked_call, &checked_kind);
    if (self == NULL)
        goto failed;
    self->reader = (Reader *)Py_NewRef(reader);
    self->other = Py_NewRef(other);
    self->fits = or_null(fits);
    self->known = or_null(known);
    self->words = or_null(words);
    self->current_device = or_null(current_device);
    self->current_stream = or_null(current_stream);
    self->device_type = device_type;
    self->device = device;
    self->stream_of = (int32_t (*)(int32_t, void **))(uintptr_t)stream_of;
    self->stream = (void *)(uintptr_t)stream;
    self->count = (int)(params.len / (Py_ssize_t)sizeof(Param));
    self->map_count = (int)PyTuple_GET_SIZE(maps);
    if ((self->device_number = PyLong_FromLong(device)) == NULL || !target_of(&self->target, target))
        goto failed;
    if (self->count + self->map_count + (self->words != NULL) != self->target.count ||
        (self->known != NULL && !PyDict_CheckExact(self->known))) {
        PyErr_SetString(PyExc_ValueError, "as many values as parameters, tensor maps and the barrier's word");
        goto failed;
    }
    memcpy(self->params, params.buf, (size_t)self->count * sizeof(Param));
    if (!offsets_of(self->map_param, maps, self->count - 1))
        goto failed;
    PyBuffer_Release(&params);
    return (PyObject *)self;
failed:
    PyBuffer_Release(&params);
    Py_XDECREF(self);
    return NULL;
}

static PyMemberDef checked_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Called, vectorcall), READONLY, NULL},
    {"other", T_OBJECT, offsetof(Checked, other), READONLY, "what launches all else"},
    {"known", T_OBJECT, offsetof(Checked, known), READONLY, "of sizes and numbers what `fits` said"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot checked_slots[] =
    CALLED_SLOTS("A launch with every check, of tensors of torch and numbers.", checked_new, checked_members);
static PyType_Spec checked_spec = {"snap.native.Checked", sizeof(Checked), 0, CALLED_FLAGS, checked_slots};
