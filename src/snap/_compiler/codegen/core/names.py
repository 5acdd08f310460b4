"""Identifiers of the generated code: the user's where they can stand, otherwise the nearest that can.

Invariant:  a name given out is an ASCII identifier that is no keyword, builtin or macro of CUDA C++, and that no
            enclosing scope uses
Non-goals:  linking with other files
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import repeat
from operator import contains

KEYWORDS = frozenset(
    """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
concept const consteval constexpr
constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else enum
explicit export extern false
float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch template
this thread_local throw true
try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
""".split()
)

# Macros of compilers and of the headers that nvcc includes by itself: no identifier anywhere may be one.
MACROS = frozenset(
    """
linux unix NULL EOF BUFSIZ FILENAME_MAX FOPEN_MAX INFINITY NAN HUGE_VAL HUGE_VALF HUGE_VALL MATH_ERRNO MATH_ERREXCEPT
DOMAIN SING OVERFLOW UNDERFLOW
PLOSS TLOSS RAND_MAX EXIT_SUCCESS EXIT_FAILURE CLOCKS_PER_SEC L_tmpnam P_tmpdir TMP_MAX SEEK_SET SEEK_CUR SEEK_END
stdin stdout stderr errno assert
alloca offsetof major minor makedev CHAR_BIT CHAR_MAX CHAR_MIN INT_MAX INT_MIN UINT_MAX LONG_MAX LONG_MIN ULONG_MAX
LLONG_MAX LLONG_MIN ULLONG_MAX
SCHAR_MAX SCHAR_MIN SHRT_MAX SHRT_MIN UCHAR_MAX USHRT_MAX PATH_MAX NAME_MAX TIME_UTC TIMER_ABSTIME WNOHANG WUNTRACED
NFDBITS FD_SETSIZE FD_SET
FD_CLR FD_ISSET FD_ZERO BIG_ENDIAN LITTLE_ENDIAN PDP_ENDIAN BYTE_ORDER MAXFLOAT NZERO PIPE_BUF LONG_BIT WORD_BIT
F_TEST WNOWAIT TEMP_FAILURE_RETRY
strdupa strndupa issubnormal math_errhandling assert_perror be16toh be32toh be64toh htobe16 htobe32 htobe64 htole16
htole32 htole64 le16toh le32toh
le64toh RE_DUP_MAX IOV_MAX
""".split()
)
MACRO_FORMS = re.compile(
    r"(M|FP|CUDART|CUDA|NV|CLOCK|SIG|MB|STA|CU|ADJ|MOD)_[A-Z0-9_]+|M_[A-Z0-9_]+[flx0-9]+|"
    r"(BOOL|CHAR|INT|UINT|U?LONG|U?LLONG|[SU]CHAR|U?SHRT)_WIDTH|(HUGE_VAL|SNAN)_?\w*|[FRWX]_OK|F_\w*LOCK|W[A-Z]+ED|W(EXIT|STOP|TERM)\w+|L_[a-zA-Z]+|[A-Z]+_NAME_MAX"
)

# What expressions of the generated code may call or name: a variable of this name would hide it.
BUILTINS = frozenset(
    """
threadIdx blockIdx blockDim gridDim warpSize half std min max abs llabs isnan isinf isfinite atomicAdd atomicMin
atomicMax atomicAnd atomicOr
atomicXor atomicExch atomicCAS fabs fabsf fmin fminf fmax fmaxf exp2f sqrtf rsqrtf
""".split()
)
BUILTIN_FORMS = re.compile(
    r"(make_)?(u?(char|short|int|long|longlong)|float|double)[1234](_\w+)?|snap_\w*|__\w*|_[A-Z]\w*"
)
MATH_STEMS = frozenset(
    """
acos acosh asin asinh atan atan2 atanh canonicalize cbrt ceil copysign cos cosh cospi drem erf erfc erfcinv erfcx
erfinv exp exp10 exp2 expm1 fabs
fdim fdivide floor fma fmax fmaximum fmin fminimum fmod frexp gamma hypot ilogb isinf isnan j0 j1 jn ldexp lgamma
llogb llrint llround log log10
log1p log2 logb lrint lround modf nan nearbyint nextafter nextdown nexttoward nextup norm norm3d norm4d normcdf
normcdfinv pow rcbrt remainder
remquo rhypot rint rnorm rnorm3d rnorm4d round roundeven rsqrt scalb scalbln scalbn significand sin sincos sincospi
sinh sinpi sqrt tan tanh tgamma
totalorder totalordermag trunc y0 y1 yn finite isfinite signbit cyl_bessel_i0 cyl_bessel_i1 getpayload setpayload
setpayloadsig fromfp fromfpx
ufromfp ufromfpx fadd fdiv ffma fmul fsqrt fsub dadd ddiv dfma dmul dsqrt dsub
""".split()
)
# Those of them that generated code never calls; they are likely names of variables.
NEVER_CALLED = frozenset("y0 y1 yn j0 j1 jn norm gamma significand remainder finite nan".split())

# Further functions, types and variables that nvcc or NVRTC declares at file scope, where only functions of the program
# are named.
FILE_WORDS = frozenset(
    """
a64l abort aligned_alloc arc4random asctime asprintf atexit atof atoi atol atoll bcmp bcopy bsearch bzero calloc
clearenv clearerr clock clock64
ctermid ctime cuserid daylight difftime dim3 div dprintf drand48 dysize ecvt erand48 exit explicit_bzero fclose
fcloseall fcvt fdopen feof ferror
fflush ffs ffsl ffsll fgetc fgetpos fgets fileno flockfile fmemopen fopen fopencookie fprintf fputc fputs fread free
freopen fscanf fseek fseeko
fsetpos ftell ftello ftrylockfile funlockfile fwrite gcvt getc getchar getdate getdelim getenv getline getloadavg
getpt getsubopt getw gmtime
grantpt index initstate jrand48 l64a labs lcong48 ldiv lldiv llmax llmin localtime lrand48 malloc mblen mbstowcs
mbtowc mkdtemp mkostemp mkostemps
mkstemp mkstemps mktemp mktime mrand48 nanosleep nrand48 nullptr_t obstack_printf obstack_vprintf on_exit
open_memstream pclose perror
popen posix_memalign posix_openpt printf pselect ptsname putc putchar putenv puts putw qecvt qfcvt qgcvt qsort
quick_exit rand rand_r random realloc
reallocarray realpath remove rename renameat renameat2 rewind rindex rpmatch scanf secure_getenv seed48 select setbuf
setbuffer setenv setlinebuf
setstate setvbuf signgam snprintf sprintf srand srand48 srandom sscanf stpcpy stpncpy swab system tempnam time timegm
timelocal timezone tmpfile
tmpnam toascii tolower toupper tzname tzset uint ullmax ullmin ulong umax umin ungetc unlockpt unsetenv ushort valloc
vasprintf vdprintf vfprintf
vfscanf vprintf vscanf vsnprintf vsprintf vsscanf wcstombs wctomb FILE libraryPropertyType main arc4random_buf
arc4random_uniform
canonicalize_file_name fd_mask fd_set getdate_err u_char u_int u_long u_short va_list read write open close link
unlink access pipe sleep alarm
pause fork dup dup2 nice sync brk sbrk
""".split()
)
FILE_FORMS = re.compile(
    r"cuda[A-Z]\w*|CU[a-z]\w*|str(case|cat|chr|cmp|coll|cpy|cspn|dup|err|from|fry|ftime|len|ncase|ncat|ncmp|ncpy|ndup|nlen|pbrk|ptime|sep|signal|spn|str|to|verscmp|xfrm)\w*"
    r"|mem(ccpy|chr|cmp|cpy|frob|mem|move|pcpy|rchr|set)|is(alnum|alpha|ascii|blank|cntrl|ctype|digit|graph|lower|print|punct|space|upper|xdigit)|sig\w+_np"
    r"|(make_)?(half|bfloat16)2|nv_(half|bfloat16)2?|h2?(ceil|cos|exp|exp10|exp2|floor|log|log10|log2|rcp|rint|rsqrt|sin|sqrt|tanh|tanh_approx|trunc)"
    r"|(timer|clock|timespec|pthread)_\w+|\w+_t|\w+_unlocked|f(32|64)x?(add|div|fma|mul|sqrt|sub|xadd|xdiv|xfma|xmul|xsqrt|xsub)\w+|fm(ax|in)(imum)?_?(mag|num)\w*"
)
_ANYWHERE = KEYWORDS | MACROS | BUILTINS
_CALLED = MATH_STEMS - NEVER_CALLED
_IN_FILES = MATH_STEMS | FILE_WORDS
SUFFIX = re.compile(r"((f|l|f32|f32x|f64|f64x)(_r)?|64|_r|_l)$")


@lru_cache(maxsize=1 << 12)
def in_any_scope(name: str) -> bool:
    """Return whether `name` is taken in every scope."""
    if name in _ANYWHERE or name.removesuffix("f") in _CALLED:
        return True
    return MACRO_FORMS.fullmatch(name) is not None or BUILTIN_FORMS.fullmatch(name) is not None


@lru_cache(maxsize=1 << 10)
def at_file_scope(name: str) -> bool:
    """Return whether `name` is taken where functions are named."""
    stem = SUFFIX.sub("", name)
    return in_any_scope(name) or name in _IN_FILES or stem in _IN_FILES or FILE_FORMS.fullmatch(name) is not None


def identifier(text: str) -> str:
    """`text` with every character that an ASCII identifier cannot hold spelled as its code point."""
    if text.isascii() and text.isidentifier():
        return text
    text = text.replace(".", "_")  # a field of a record
    name = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in text)
    return name if name and not name[0].isdigit() else f"v{name}"


class Namer:
    """Gives out names, unique among those in scope; scopes nest, and a name may be used again once its scope has
    closed.
    """

    def __init__(self, reserved=in_any_scope, avoid: frozenset[str] = frozenset()):
        self.reserved = reserved
        self.avoid = avoid
        self.scopes: list[set[str]] = [set()]

    def open(self) -> None:
        self.scopes.append(set())

    def close(self) -> None:
        self.scopes.pop()

    def user(self, wanted: str) -> str:
        """A name of the user's."""
        return self._claim(wanted, frozenset())

    def own(self, wanted: str) -> str:
        """A name of the compiler's: gives way to all of the user's, also those that come later."""
        return self._claim(wanted, self.avoid)

    def _claim(self, wanted: str, avoid: frozenset[str]) -> str:
        name = base = identifier(wanted)
        if self.reserved(f"{base}_1"):  # a number does not help against reserved prefixes
            base = "_".join(filter(None, ("v", base.strip("_"))))
            name = base if self.reserved(name) else name
        number = 0
        while self.reserved(name) or name in avoid or any(map(contains, self.scopes, repeat(name))):
            number += 1
            name = f"{base}_{number}"
        self.scopes[-1].add(name)
        return name
