/* What is launched, and how: the driver's call. */

enum { MOST_VALUES = 128, MOST_BYTES = 4096, MOST_WORDS = 256, MOST_KNOWN = 64, MAP_BYTES = 128 };

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

_Static_assert(sizeof(Config) == 56 && offsetof(Config, stream) == 32, "CUlaunchConfig");
_Static_assert(sizeof(Attribute) == 72, "CUlaunchAttribute");

typedef int (*Driver)(const Config *, void *function, void **values, void **extra);

typedef struct {
    Driver driver;
    void *function;
    Config config;
    Attribute attribute;
    int cooperative;
    int count;                /* values */
    uint16_t at[MOST_VALUES]; /* where each lies among the packed bytes */
    PyObject *failed;         /* (result, config, values) launches in the right context, or raises */
} Target;

/* Where a launch stands: made, an error was raised, or it is another one's affair. */
typedef enum { MADE, RAISED, OTHERS } Outcome;

static PyObject *gpu_error; /* the one class of errors that is not the whole way's to explain */

/* An error of a function of Python: the whole way meets it again and explains it, unless it is none of arguments. */
static Outcome after_error(void)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception) || (gpu_error && PyErr_ExceptionMatches(gpu_error)))
        return RAISED;
    PyErr_Clear();
    return OTHERS;
}

/* shared: the bytes of shared memory that a launch gives each block. */
static Outcome launched(const Target *target, uint32_t shared, void *stream, unsigned char *packed)
{
    void *values[MOST_VALUES];
    for (int k = 0; k < target->count; k++)
        values[k] = packed + target->at[k];
    Config config = target->config;
    Attribute attribute = target->attribute;
    config.shared = shared;
    config.stream = stream;
    if (target->cooperative) {
        config.attributes = &attribute;
        config.attribute_count = 1;
    }
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = target->driver(&config, target->function, values, NULL);
    Py_END_ALLOW_THREADS
    if (result == 0)
        return MADE;
    PyObject *said = PyObject_CallFunction(target->failed, "iKK", result, (unsigned long long)(uintptr_t)&config,
                                           (unsigned long long)(uintptr_t)values);
    Py_XDECREF(said);
    return said == NULL ? RAISED : MADE;
}

/* Stores where each value lies.  0: there are too many, or one does not lie below `end`. */
static int offsets_of(uint16_t *at, PyObject *given, Py_ssize_t end)
{
    if (PyTuple_GET_SIZE(given) > MOST_VALUES) {
        PyErr_SetString(PyExc_ValueError, "too many values");
        return 0;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(given); k++) {
        long found = PyLong_AsLong(PyTuple_GET_ITEM(given, k));
        if (found < 0 || found > end) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a value outside of the bytes");
            return 0;
        }
        at[k] = (uint16_t)found;
    }
    return 1;
}

/* target: (driver, function, blocks, threads, shared bytes, cooperative, failed, (offset of each value, ...)) */
static int target_of(Target *target, PyObject *given)
{
    unsigned long long driver, function;
    unsigned int blocks, threads, shared;
    PyObject *failed, *offsets;
    if (!PyArg_ParseTuple(given, "KKIIIpOO!", &driver, &function, &blocks, &threads, &shared, &target->cooperative,
                          &failed, &PyTuple_Type, &offsets))
        return 0;
    target->count = (int)PyTuple_GET_SIZE(offsets);
    if (!offsets_of(target->at, offsets, MOST_BYTES - MAP_BYTES))
        return 0;
    target->driver = (Driver)(uintptr_t)driver;
    target->function = (void *)(uintptr_t)function;
    target->config = (Config){{blocks, 1, 1}, {threads, 1, 1}, shared, NULL, NULL, 0};
    target->attribute = (Attribute){2, {0}, 1, {0}}; /* CU_LAUNCH_ATTRIBUTE_COOPERATIVE: 1 */
    target->failed = Py_NewRef(failed);
    return 1;
}
