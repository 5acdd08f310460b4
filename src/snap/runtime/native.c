/* Repeated launches in one call: what fastpath.py and trusted.py do in generated Python, done in C.

   Checked   a launch of a kernel with tensors of torch and numbers.  Every argument is read anew at every call and
             passes the checks of validate.py; whatever does not goes to `other`, the function of Python, which launches
             it or says what is wrong.  What is remembered are sizes and numbers for which `fits` has said that shapes
             and `where=` hold.
   Trusted   a launch whose arguments the caller has compared (trusted.py): addresses and tensor maps, put beside
             numbers that never change.

   Nothing of CUDA or of torch is included or linked.  The driver's function comes as an address.  Tensors are read by
   torch's C functions for compiled programs (aoti_torch_get_*, whose interface is kept from version to version), which
   come as addresses, too; where a tensor's handle lies in its object was found and tried by torchreads.py.

   Values are packed on the stack, so that threads share nothing: the driver has copied them when it returns.  The GIL is
   released around the driver's call alone. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

enum { MOST_VALUES = 128, MOST_BYTES = 4096, MOST_WORDS = 256, MOST_KNOWN = 16, MAP_BYTES = 128 };

/* CUlaunchConfig and CUlaunchAttribute, as in gpu.py. */
typedef struct {
    uint32_t grid[3], block[3], shared;
    void *stream;
    void *attributes;
    uint32_t attribute_count;
} Config;

typedef struct {
    uint32_t id;
    char pad[4];
    uint32_t value;
    char rest[60];
} Attribute;

_Static_assert(sizeof(Config) == 56 && offsetof(Config, stream) == 32 && sizeof(Attribute) == 72, "the driver's layout");

typedef int (*Driver)(const Config *, void *function, void **values, void **extra);

/* What is launched, and how. */
typedef struct {
    Driver driver;
    void *function;
    Config config;
    Attribute attribute;
    int cooperative;
    int count;                     /* values */
    uint16_t at[MOST_VALUES];      /* where each lies among the packed bytes */
    PyObject *failed;              /* (result, again) raises, or has made another attempt worth while */
} Target;

/* Where a launch stands: made, an error was raised, or it is another one's affair. */
typedef enum { MADE, RAISED, OTHERS } Outcome;

static PyObject *gpu_error; /* the one class of errors that is not the slow path's to explain */

/* An error of a function of Python: the slow path meets it again, and explains it, unless it is no affair of arguments. */
static Outcome after_error(void)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception) || (gpu_error && PyErr_ExceptionMatches(gpu_error)))
        return RAISED;
    PyErr_Clear();
    return OTHERS;
}

static Outcome launched(const Target *target, void *stream, unsigned char *packed)
{
    void *values[MOST_VALUES];
    for (int k = 0; k < target->count; k++)
        values[k] = packed + target->at[k];
    Config config = target->config;
    Attribute attribute = target->attribute;
    config.stream = stream;
    if (target->cooperative) {
        config.attributes = &attribute;
        config.attribute_count = 1;
    }
    for (int again = 0;; again = 1) {
        int result;
        Py_BEGIN_ALLOW_THREADS
        result = target->driver(&config, target->function, values, NULL);
        Py_END_ALLOW_THREADS
        if (result == 0)
            return MADE;
        PyObject *said = PyObject_CallFunction(target->failed, "ii", result, again);
        if (said == NULL)
            return RAISED;
        Py_DECREF(said);
        if (again) {
            PyErr_Format(PyExc_SystemError, "a launch failed twice with error %d, and nobody said so", result);
            return RAISED;
        }
    }
}

/* target: (driver, function, blocks, threads, shared bytes, cooperative, failed, (offset of each value, ...)) */
static int target_of(Target *target, PyObject *given)
{
    unsigned long long driver, function;
    unsigned int blocks, threads, shared;
    PyObject *failed, *offsets;
    if (!PyArg_ParseTuple(given, "KKIIIpOO!", &driver, &function, &blocks, &threads, &shared, &target->cooperative, &failed,
                          &PyTuple_Type, &offsets))
        return 0;
    target->count = (int)PyTuple_GET_SIZE(offsets);
    if (target->count > MOST_VALUES) {
        PyErr_SetString(PyExc_ValueError, "too many values");
        return 0;
    }
    for (int k = 0; k < target->count; k++) {
        long at = PyLong_AsLong(PyTuple_GET_ITEM(offsets, k));
        if (at < 0 || at > MOST_BYTES - MAP_BYTES) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "too many bytes");
            return 0;
        }
        target->at[k] = (uint16_t)at;
    }
    target->driver = (Driver)(uintptr_t)driver;
    target->function = (void *)(uintptr_t)function;
    target->config = (Config){{blocks, 1, 1}, {threads, 1, 1}, shared, NULL, NULL, 0};
    target->attribute = (Attribute){2, {0}, 1, {0}}; /* CU_LAUNCH_ATTRIBUTE_COOPERATIVE: 1 */
    target->failed = Py_NewRef(failed);
    return 1;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------ */

static int pack_float(int size, double value, unsigned char *to)
{
#if PY_VERSION_HEX >= 0x030B0000
    return size == 8 ? PyFloat_Pack8(value, (char *)to, 1) : size == 4 ? PyFloat_Pack4(value, (char *)to, 1)
                                                                       : PyFloat_Pack2(value, (char *)to, 1);
#else
    return size == 8 ? _PyFloat_Pack8(value, to, 1) : size == 4 ? _PyFloat_Pack4(value, to, 1) : _PyFloat_Pack2(value, to, 1);
#endif
}

/* Round to nearest even, as signature.bf16_bits does; only finite numbers in the type's range come here. */
static uint16_t bf16_bits(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* One number, checked as fastpath.py does, by the letter that `struct` has for its type ('w': bf16).  0: it does not
   fit, or might not.  key: its bits, where they are asked for. */
static int pack_number(char kind, PyObject *arg, unsigned char *to, int64_t *key)
{
    if (kind == '?') {
        if (!PyBool_Check(arg))
            return 0;
        *to = arg == Py_True;
        if (key)
            *key = *to;
        return 1;
    }
    if (strchr("defw", kind)) {
        double value;
        if (PyFloat_CheckExact(arg))
            value = PyFloat_AS_DOUBLE(arg);
        else if (PyLong_CheckExact(arg) && kind != 'w' && key == NULL) {
            value = PyLong_AsDouble(arg);
            if (value == -1.0 && PyErr_Occurred()) {
                PyErr_Clear();
                return 0;
            }
        } else
            return 0;
        if (key)
            memcpy(key, &value, 8);
        if (kind == 'w') {
            if (!(-3.3e38 < value && value < 3.3e38))
                return 0;
            uint16_t bits = bf16_bits(value);
            memcpy(to, &bits, 2);
            return 1;
        }
        if (pack_float(kind == 'd' ? 8 : kind == 'f' ? 4 : 2, value, to) < 0) {
            PyErr_Clear();
            return 0;
        }
        return 1;
    }
    if (!PyLong_CheckExact(arg))
        return 0;
    if (kind == 'Q') {
        unsigned long long value = PyLong_AsUnsignedLongLong(arg);
        if (value == (unsigned long long)-1 && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        memcpy(to, &value, 8);
        if (key)
            memcpy(key, &value, 8);
        return 1;
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(arg, &overflow);
    if (overflow)
        return 0;
    static const struct { char kind; int bytes; long long low, high; } ranges[] = {
        {'i', 4, INT32_MIN, INT32_MAX}, {'q', 8, INT64_MIN, INT64_MAX}, {'I', 4, 0, UINT32_MAX}, {'b', 1, INT8_MIN, INT8_MAX},
        {'h', 2, INT16_MIN, INT16_MAX}, {'B', 1, 0, UINT8_MAX}, {'H', 2, 0, UINT16_MAX},
    };
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
        if (ranges[k].kind == kind) {
            if (value < ranges[k].low || value > ranges[k].high)
                return 0;
            memcpy(to, &value, ranges[k].bytes); /* the lowest bytes come first on the machines that this is built for */
            if (key)
                *key = value;
            return 1;
        }
    return 0;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

/* torch's C functions; each gives 0 where it has stored what it was asked for. */
typedef struct {
    int32_t (*dtype)(void *, int32_t *), (*layout)(void *, int32_t *), (*device_type)(void *, int32_t *), (*device)(void *, int32_t *);
    int32_t (*dim)(void *, int64_t *), (*sizes)(void *, int64_t **), (*strides)(void *, int64_t **), (*data)(void *, void **);
    Py_ssize_t handle; /* where it lies in a tensor's object */
    int32_t strided;
    PyObject *types[2]; /* Tensor, Parameter: subclasses may mean anything */
    PyObject *is_neg;
} Reads;

/* reads: (the eight functions, handle, strided, Tensor, Parameter, is_neg) */
static int reads_of(Reads *reads, PyObject *given)
{
    unsigned long long f[8];
    PyObject *tensor, *parameter, *is_neg;
    if (!PyArg_ParseTuple(given, "KKKKKKKKniOOO", f, f + 1, f + 2, f + 3, f + 4, f + 5, f + 6, f + 7, &reads->handle, &reads->strided,
                          &tensor, &parameter, &is_neg))
        return 0;
    reads->dtype = (int32_t (*)(void *, int32_t *))(uintptr_t)f[0];
    reads->layout = (int32_t (*)(void *, int32_t *))(uintptr_t)f[1];
    reads->device_type = (int32_t (*)(void *, int32_t *))(uintptr_t)f[2];
    reads->device = (int32_t (*)(void *, int32_t *))(uintptr_t)f[3];
    reads->dim = (int32_t (*)(void *, int64_t *))(uintptr_t)f[4];
    reads->sizes = (int32_t (*)(void *, int64_t **))(uintptr_t)f[5];
    reads->strides = (int32_t (*)(void *, int64_t **))(uintptr_t)f[6];
    reads->data = (int32_t (*)(void *, void **))(uintptr_t)f[7];
    reads->types[0] = Py_NewRef(tensor);
    reads->types[1] = Py_NewRef(parameter);
    reads->is_neg = Py_NewRef(is_neg);
    return 1;
}

typedef enum { NOT_ASKED, BYTES, SHAPE } Asked;

/* A parameter.  asked: what `fits` asks of an array; of a number: whether it does. */
typedef struct {
    char kind; /* 'P': an array; else a number's letter */
    Asked asked;
    int constant;
    int32_t dtype;
    int64_t bytes, widest; /* of an element; what the address must be a multiple of */
} Param;

typedef struct {
    uint64_t address, bytes;
} Range;

typedef struct {
    int count;
    int64_t words[MOST_WORDS];
} Key;

/* Reads a tensor into `range`, and into `key` what is asked of it. */
static Outcome read_tensor(const Reads *reads, const Param *param, int32_t device_type, int32_t device, PyObject *arg, Range *range, Key *key)
{
    if ((PyObject *)Py_TYPE(arg) != reads->types[0] && (PyObject *)Py_TYPE(arg) != reads->types[1])
        return OTHERS;
    void *handle = (char *)arg + reads->handle;
    int32_t dtype, layout, type, number;
    int64_t dim, *sizes, *strides, elements = 1, expected = 1;
    void *data;
    int contiguous = 1;
    if (reads->dtype(handle, &dtype) || dtype != param->dtype || reads->layout(handle, &layout) || layout != reads->strided ||
        reads->device_type(handle, &type) || type != device_type || reads->device(handle, &number) || number != device ||
        reads->dim(handle, &dim) || reads->sizes(handle, &sizes) || reads->strides(handle, &strides))
        return OTHERS;
    if (param->asked == SHAPE) {
        if (key->count + dim >= MOST_WORDS)
            return OTHERS;
        key->words[key->count++] = dim;
        memcpy(key->words + key->count, sizes, 8 * (size_t)dim);
        key->count += (int)dim;
    }
    for (int64_t k = dim - 1; k >= 0; k--) { /* as torch's is_contiguous() */
        elements *= sizes[k];
        if (sizes[k] != 1) {
            contiguous &= strides[k] == expected;
            expected *= sizes[k];
        }
    }
    if (!contiguous && elements)
        return OTHERS;
    range->bytes = (uint64_t)(elements * param->bytes);
    if (param->asked == BYTES) {
        if (key->count >= MOST_WORDS)
            return OTHERS;
        key->words[key->count++] = (int64_t)range->bytes;
    }
    if (range->bytes <= 8) { /* a tensor of one element may be lazily negated and contiguous at the same time */
        PyObject *negated = PyObject_CallOneArg(reads->is_neg, arg);
        if (negated == NULL)
            return after_error();
        Py_DECREF(negated);
        if (negated != Py_False)
            return OTHERS;
    }
    if (reads->data(handle, &data))
        return OTHERS;
    range->address = (uint64_t)(uintptr_t)data;
    return range->address % (uint64_t)param->widest ? OTHERS : MADE;
}

/* ---- checked launches ---------------------------------------------------------------------------------------------- */

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
    PyObject_HEAD
    vectorcallfunc vectorcall;
    Target target;
    Reads reads;
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

/* The arguments of `fits`, of every parameter that it asks about: a number, an array's bytes, or its bytes and shape. */
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
    int overflow, same = PyLong_CheckExact(said) && PyLong_AsLongAndOverflow(said, &overflow) == self->device && !overflow;
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
                ranges[i].address + ranges[i].bytes > ranges[j].address && ranges[j].address + ranges[j].bytes > ranges[i].address)
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
            Outcome read = read_tensor(&self->reads, param, self->device_type, self->device, args[k], &ranges[k], &key);
            if (read != MADE)
                return read;
            memcpy(to, &ranges[k].address, 8);
        } else {
            if (param->asked != NOT_ASKED && key.count >= MOST_WORDS)
                return OTHERS;
            if (!pack_number(param->kind, args[k], to, param->asked != NOT_ASKED ? &key.words[key.count++] : NULL))
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
    return outcome == MADE ? launched(&self->target, stream, packed) : outcome;
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

static int checked_traverse(PyObject *object, visitproc visit, void *arg)
{
    Checked *self = (Checked *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->target.failed);
    Py_VISIT(self->reads.types[0]);
    Py_VISIT(self->reads.types[1]);
    Py_VISIT(self->reads.is_neg);
    Py_VISIT(self->other);
    Py_VISIT(self->fits);
    Py_VISIT(self->maps);
    Py_VISIT(self->words);
    Py_VISIT(self->current_device);
    Py_VISIT(self->current_stream);
    return 0;
}

/* Only what can lead back here: all else is of use until the end. */
static int checked_clear(PyObject *object)
{
    Checked *self = (Checked *)object;
    Py_CLEAR(self->other);
    return 0;
}

static void checked_dealloc(PyObject *object)
{
    Checked *self = (Checked *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    for (int k = 0; k < self->known_count; k++)
        release(self, self->known[k]);
    checked_clear(object);
    PyObject *held[] = {self->target.failed, self->reads.types[0], self->reads.types[1], self->reads.is_neg, self->fits, self->maps,
                        self->words, self->current_device, self->device_number, self->current_stream};
    for (size_t k = 0; k < sizeof held / sizeof *held; k++)
        Py_XDECREF(held[k]);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *or_null(PyObject *given)
{
    return given == Py_None ? NULL : Py_NewRef(given);
}

/* params: of each (letter, asked, constant, dtype, bytes, widest); maps: of each tensor map its parameter and what has
   it; stream: the address of a C function, a function of Python, or None with a fixed handle. */
static PyObject *checked_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *target, *reads, *params, *maps, *other, *fits, *words, *current_device, *current_stream;
    unsigned long long stream_of, stream;
    int device_type, device, remember;
    if (names != NULL && PyDict_GET_SIZE(names)) {
        PyErr_SetString(PyExc_TypeError, "takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(given, "O!O!O!O!OOpOiiOOKK", &PyTuple_Type, &target, &PyTuple_Type, &reads, &PyTuple_Type, &params, &PyTuple_Type,
                          &maps, &other, &fits, &remember, &words, &device_type, &device, &current_device, &current_stream, &stream_of,
                          &stream))
        return NULL;
    Checked *self = (Checked *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = checked_call;
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
    if (self->device_number == NULL || self->maps == NULL || !target_of(&self->target, target) || !reads_of(&self->reads, reads))
        goto failed;
    if (self->count + PyTuple_GET_SIZE(maps) + (self->words != NULL) != self->target.count) {
        PyErr_SetString(PyExc_ValueError, "as many values as parameters, tensor maps and the barrier's word");
        goto failed;
    }
    for (int k = 0; k < self->count; k++) {
        Param *param = &self->params[k];
        int letter, asked;
        long long bytes, widest;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(params, k), "CipiLL", &letter, &asked, &param->constant, &param->dtype, &bytes, &widest))
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
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Checked, vectorcall), READONLY, NULL},
    {"other", T_OBJECT, offsetof(Checked, other), READONLY, "what launches all else"},
    {"known", T_INT, offsetof(Checked, known_count), READONLY, "choices of sizes and numbers that are known to fit"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot checked_slots[] = {
    {Py_tp_doc, "A launch with every check, of tensors of torch and numbers."},
    {Py_tp_new, checked_new},
    {Py_tp_dealloc, checked_dealloc},
    {Py_tp_traverse, checked_traverse},
    {Py_tp_clear, checked_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, checked_members},
    {0, NULL},
};

static PyType_Spec checked_spec = {
    "snap.native.Checked", sizeof(Checked), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, checked_slots,
};

/* ---- trusted launches ---------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
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
    if (launched(&self->target, (void *)(uintptr_t)stream, packed) != MADE)
        return NULL;
    Py_RETURN_NONE;
}

static int trusted_traverse(PyObject *object, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(((Trusted *)object)->target.failed);
    return 0;
}

static void trusted_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    Py_XDECREF(((Trusted *)object)->target.failed);
    type->tp_free(object);
    Py_DECREF(type);
}

/* image: all values, packed; offsets: where the arguments go. */
static PyObject *trusted_new(PyTypeObject *type, PyObject *given, PyObject *names)
{
    PyObject *target, *offsets;
    Py_buffer image;
    if (!PyArg_ParseTuple(given, "O!y*O!", &PyTuple_Type, &target, &image, &PyTuple_Type, &offsets))
        return NULL;
    Trusted *self = (Trusted *)type->tp_alloc(type, 0);
    if (self == NULL || !target_of(&self->target, target))
        goto failed;
    self->vectorcall = trusted_call;
    self->count = (int)PyTuple_GET_SIZE(offsets);
    if (image.len > MOST_BYTES || self->count > MOST_VALUES) {
        PyErr_SetString(PyExc_ValueError, "too many values");
        goto failed;
    }
    self->bytes = (int)image.len;
    memcpy(self->image, image.buf, (size_t)image.len);
    for (int k = 0; k < self->count; k++) {
        long at = PyLong_AsLong(PyTuple_GET_ITEM(offsets, k));
        if (at < 0 || at + 8 > image.len) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a value outside of the image");
            goto failed;
        }
        self->at[k] = (uint16_t)at;
    }
    PyBuffer_Release(&image);
    return (PyObject *)self;
failed:
    PyBuffer_Release(&image);
    Py_XDECREF(self);
    return NULL;
}

static PyMemberDef trusted_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Trusted, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot trusted_slots[] = {
    {Py_tp_doc, "A launch of a stream, addresses and tensor maps, nothing of which is checked."},
    {Py_tp_new, trusted_new},
    {Py_tp_dealloc, trusted_dealloc},
    {Py_tp_traverse, trusted_traverse},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, trusted_members},
    {0, NULL},
};

static PyType_Spec trusted_spec = {
    "snap.native.Trusted", sizeof(Trusted), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, trusted_slots,
};

/* ---- the module ---------------------------------------------------------------------------------------------------- */

static PyObject *not_explained(PyObject *module, PyObject *error)
{
    Py_XSETREF(gpu_error, Py_NewRef(error));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"not_explained", not_explained, METH_O, "The class of errors that are raised as they are."},
    {NULL, NULL, 0, NULL},
};

static int begin(PyObject *module)
{
    PyType_Spec *specs[] = {&checked_spec, &trusted_spec};
    for (int k = 0; k < 2; k++) {
        PyObject *type = PyType_FromModuleAndSpec(module, specs[k], NULL);
        if (type == NULL || PyModule_AddType(module, (PyTypeObject *)type) < 0) {
            Py_XDECREF(type);
            return -1;
        }
        Py_DECREF(type);
    }
    return PyModule_AddIntConstant(module, "MOST_VALUES", MOST_VALUES) < 0 ||
                   PyModule_AddIntConstant(module, "MOST_BYTES", MOST_BYTES - MAP_BYTES) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "snap_native", NULL, 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_snap_native(void)
{
    return PyModuleDef_Init(&definition);
}
