/* Numbers as a launch passes them. */

static int pack_float(int size, double value, unsigned char *to)
{
#if PY_VERSION_HEX >= 0x030B0000
    char *bytes = (char *)to;
    if (size == 8)
        return PyFloat_Pack8(value, bytes, 1);
    return size == 4 ? PyFloat_Pack4(value, bytes, 1) : PyFloat_Pack2(value, bytes, 1);
#else
    if (size == 8)
        return _PyFloat_Pack8(value, to, 1);
    return size == 4 ? _PyFloat_Pack4(value, to, 1) : _PyFloat_Pack2(value, to, 1);
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

/* One number, checked as conditions.number says, by the letter that `struct` has for its type ('w': bf16).  0: it does not
   fit, or might not.  bits: what tells it from every other number; exact: nothing else may have them, so that an
   integer where a float is wanted does not fit. */
static int pack_number(char kind, PyObject *arg, unsigned char *to, int exact, int64_t *bits)
{
    if (kind == '?') {
        if (!PyBool_Check(arg))
            return 0;
        *bits = *to = arg == Py_True;
        return 1;
    }
    if (strchr("defw", kind)) {
        double value;
        if (PyFloat_CheckExact(arg))
            value = PyFloat_AS_DOUBLE(arg);
        else if (PyLong_CheckExact(arg) && kind != 'w' && !exact) {
            value = PyLong_AsDouble(arg);
            if (value == -1.0 && PyErr_Occurred()) {
                PyErr_Clear();
                return 0;
            }
        } else
            return 0;
        memcpy(bits, &value, 8);
        if (kind == 'w') {
            if (!(-3.3e38 < value && value < 3.3e38))
                return 0;
            uint16_t rounded = bf16_bits(value);
            memcpy(to, &rounded, 2);
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
        memcpy(bits, &value, 8);
        return 1;
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(arg, &overflow);
    if (overflow)
        return 0;
    static const struct { char kind; int bytes; long long low, high; } ranges[] = {
        {'i', 4, INT32_MIN, INT32_MAX}, {'q', 8, INT64_MIN, INT64_MAX}, {'I', 4, 0, UINT32_MAX}, {'B', 1, 0, UINT8_MAX},
        {'b', 1, INT8_MIN, INT8_MAX},   {'h', 2, INT16_MIN, INT16_MAX}, {'H', 2, 0, UINT16_MAX},
    };
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
        if (ranges[k].kind == kind) {
            if (value < ranges[k].low || value > ranges[k].high)
                return 0;
            memcpy(to, &value, ranges[k].bytes); /* the lowest bytes come first where this is built */
            *bits = value;
            return 1;
        }
    return 0;
}
