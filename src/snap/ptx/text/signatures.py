"""List which words an instruction may have, and its operands: a table, after the PTX ISA and as ptxas reads it.

A row is `name words : operands`.  Words: one of `a|b`; `?a|b` may be missing; `^a` stands at its place, all others in
any order (ptxas does not ask for one), types among themselves in theirs.  Sets are in capitals, below.
T, U, V and W are the row's first, second, third and last type.  Operands:

    x, =x             a source, a result: of type x, a register or, of a source, a number that a T may be
    ~x, =~x           of loads, stores and conversions: a wider register is taken, too
    @x                also a special register, and the address of a variable or a function
    x|p               a result, and if it is wanted a predicate beside it
    wx                twice as wide as x
    !                 a predicate, or its opposite
    [], [shared]      an address in the space that the words name, or in this one; [tensor]: a map and coordinates
    #, #a-b           a number that stands in the text
    {x}, {x*4}        so many as the words say (`v2`), or so many; {=sums}: the accumulators of a wgmma
    fragment          of a wgmma: a descriptor, or registers
    x?                may be missing; all behind it, too
    label             where a branch goes
    field, barrier, count, hint, ignore: numbers of which ptxas knows the range; a cache policy; of `cp.async`, whether
                      the source is read, or how much of it
"""

from __future__ import annotations

SETS = {
    "I": "u16|u32|u64|s16|s32|s64",
    "INT32": "u32|s32",
    "WIDE": "u32|u64|s32|s64",
    "B": "b16|b32|b64",
    "R": "rn|rz|rm|rp",
    "ORDER": "eq|ne|lt|le|gt|ge",
    "UNSIGNED": "eq|ne|lt|le|gt|ge|lo|ls|hi|hs",
    "FLOAT": "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan",
    "BOOL": "and|or|xor",
    "SCOPE": "cta|cluster|gpu|sys",
    "MEMORY": "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64",
    "VECTOR": "v2|v4|v8",
    "SPACE": "global|shared|shared::cta|shared::cluster|local|const|param|param::entry|param::func",
    "PLAIN": "global|shared|shared::cta|shared::cluster|local|param|param::func",
    "STRONG": "global|shared|shared::cta|shared::cluster",
    "NEAR": "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate",
    "FAR": "L2::evict_normal|L2::evict_first|L2::evict_last",
    "AHEAD": "L2::64B|L2::128B|L2::256B",
    "HINT": "L2::cache_hint",
    "SHARED": "shared|shared::cta",
    "DIM": "1d|2d|3d|4d|5d",
    "COMPLETE": "mbarrier::complete_tx::bytes",
    "MANY": "multicast::cluster",
    "COMBINE": "add|min|max|inc|dec|and|or|xor",
    "WORD": "b32|b64|u32|u64|s32|s64|f32|f64",
    "REDUCED": "u32|u64|s32|s64|b32|b64|f32|f64|f16|bf16",
    "EVICTED": "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged",
    "M64": "|".join(f"m64n{n}k{k}" for n in range(8, 257, 8) for k in (8, 16, 32)),
    "FP8": "e4m3|e5m2",
    "INT8": "s8|u8",
    "INT4": "s4|u4",
    "TILE": "m16n16k16|m8n32k16|m32n8k16",
    "NEARBY": "global|shared|shared::cta",
    "SEM": "relaxed|acquire|release|acq_rel",
}

TABLE = """
add ?sat s32 : =T T T
add u16|u32|u64|s16|s64|u16x2|s16x2 : =T T T
sub ?sat s32 : =T T T
sub u16|u32|u64|s16|s64 : =T T T
add|sub cc WIDE : =T T T
addc|subc ?cc WIDE : =T T T
mad ^lo|hi cc WIDE : =T T T T
madc ^lo|hi ?cc WIDE : =T T T T
mul ^wide u16|u32|s16|s32 : =wT T T
mul ^lo|hi I : =T T T
mad ^wide u16|u32|s16|s32 : =wT T T wT
mad ^lo|hi I : =T T T T
mad ^hi sat s32 : =T T T T
mul24 ^lo|hi INT32 : =T T T
mad24 ^lo|hi INT32 : =T T T T
mad24 ^hi sat s32 : =T T T T
sad I : =T T T T
div|rem I : =T T T
abs|neg s16|s32|s64 : =T T
min|max I : =T T T
min|max ?relu s32|s16x2 : =T T T
min|max u16x2 : =T T T
popc|clz b32|b64 : =u32 T
bfind ?shiftamt WIDE : =u32 T
fns b32 : =b32 b32 b32 s32
brev b32|b64 : =T T
bfe WIDE : =T T field field
bfi b32|b64 : =T T T field field
szext clamp|wrap INT32 : =T T u32
bmsk clamp|wrap b32 : =b32 u32 u32
dp4a INT32 INT32 : =u32 T U u32
dp2a ^lo|hi INT32 INT32 : =u32 T U u32
testp finite|infinite|number|notanumber|normal|subnormal f32|f64 : =pred T
copysign f32|f64 : =T T T
add|sub|mul ?R ?ftz ?sat f32 : =T T T
add|sub|mul ?R f64 : =T T T
add|sub|mul ?rn ?ftz ?sat f16|f16x2 : =T T T
add|sub|mul ?rn bf16|bf16x2 : =T T T
add|sub|mul ?R ?ftz f32x2 : =b64 b64 b64
add|sub ?R ?sat f32 f16|bf16 : =T U T
fma R ?ftz ?sat f32 : =T T T T
mad R ?ftz ?sat f32 : =T T T T
fma|mad R f64 : =T T T T
fma rn ?ftz ?sat f16|f16x2 : =T T T T
fma rn ?ftz relu f16|f16x2 : =T T T T
fma rn ?relu bf16|bf16x2 : =T T T T
fma R ?ftz f32x2 : =b64 b64 b64 b64
fma R ?sat f32 f16|bf16 : =T U U T
div approx|full|R ?ftz f32 : =T T T
div R f64 : =T T T
abs|neg ?ftz f32|f16|f16x2 : =T T
abs|neg f64|bf16|bf16x2 : =T T
min|max ?ftz ?NaN f32|f16|f16x2 : =T T T
min|max ?ftz ?NaN xorsign abs f32|f16|f16x2 : =T T T
min|max ?NaN bf16|bf16x2 : =T T T
min|max ?NaN xorsign abs bf16|bf16x2 : =T T T
min|max f64 : =T T T
min|max ?ftz ?NaN ?abs f32 : =T T T T
rcp|sqrt approx|R ?ftz f32 : =T T
rcp|sqrt R f64 : =T T
rcp|rsqrt approx ftz f64 : =T T
rsqrt approx ?ftz f32 : =T T
rsqrt approx f64 : =T T
sin|cos|lg2|ex2 approx ?ftz f32 : =T T
ex2 approx f16|f16x2 : =T T
ex2 approx ftz bf16|bf16x2 : =T T
tanh approx f32|f16|f16x2|bf16|bf16x2 : =T T
set eq|ne ?ftz u32|s32|f32 B : =T U U
set UNSIGNED u32|s32|f32 u16|u32|u64 : =T U U
set ORDER u32|s32|f32 s16|s32|s64 : =T U U
set FLOAT ?ftz u32|s32|f32 f32|f16 : =T U U
set FLOAT u32|s32|f32 f64|bf16 : =T U U
set FLOAT u32|s32 f16x2|bf16x2 : =T U U
set FLOAT ?ftz f16|u16|s16 f16 : =T U U
set FLOAT bf16|u16|s16 bf16 : =T U U
set FLOAT ?ftz f16x2 f16x2 : =T U U
set FLOAT bf16x2 bf16x2 : =T U U
set eq|ne BOOL u32|s32|f32 B : =T U U !
set UNSIGNED BOOL u32|s32|f32 u16|u32|u64 : =T U U !
set ORDER BOOL u32|s32|f32 s16|s32|s64 : =T U U !
set FLOAT BOOL ?ftz u32|s32|f32 f32|f16 : =T U U !
set FLOAT BOOL u32|s32|f32 f64|bf16 : =T U U !
set FLOAT BOOL ?ftz f16x2 f16x2 : =T U U !
set FLOAT BOOL bf16x2 bf16x2 : =T U U !
setp eq|ne B : =pred|p T T
setp UNSIGNED u16|u32|u64 : =pred|p T T
setp ORDER s16|s32|s64 : =pred|p T T
setp FLOAT ?ftz f32|f16|f16x2 : =pred|p T T
setp FLOAT f64|bf16|bf16x2 : =pred|p T T
setp eq|ne BOOL B : =pred|p T T !
setp UNSIGNED BOOL u16|u32|u64 : =pred|p T T !
setp ORDER BOOL s16|s32|s64 : =pred|p T T !
setp FLOAT BOOL ?ftz f32|f16|f16x2 : =pred|p T T !
setp FLOAT BOOL f64|bf16|bf16x2 : =pred|p T T !
selp B|I|f32|f64 : =T T T !
slct B|I|f32|f64 s32 : =T T T U
slct ?ftz B|I|f32|f64 f32 : =T T T U
and|or|xor pred|B : =T T T
not pred|B : =T T
cnot B : =T T
shl B : =T T u32
shr B|I : =T T u32
shf l|r wrap|clamp b32 : =b32 b32 b32 u32
prmt b32 ?f4e|b4e|rc8|ecl|ecr|rc16 : =b32 b32 b32 b32
lop3 b32 : =b32 b32 b32 b32 #
lop3 and|or b32 : =b32|p b32 b32 b32 # !
mov pred|B|I|f32|f64|b128 : =T @T
shfl sync up|down|bfly|idx b32 : =b32|p b32 b32 b32 u32
vote sync all|any|uni pred : =pred ! u32
vote sync ballot b32 : =b32 ! u32
match any sync b32|b64 : =b32 T u32
match all sync b32|b64 : =b32|p T u32
redux sync add|min|max INT32 : =T T u32
redux sync and|or|xor b32 : =T T u32
redux sync min|max ?abs ?NaN f32 : =T T u32
activemask b32 : =b32
elect sync : =b32|q u32
cvta global|const|local|param u64 : =u64 @u64
cvta SHARED|shared::cluster u64|u32 : =T @T
cvta to global|const|local|param u64 : =u64 u64
cvta to SHARED|shared::cluster u64|u32 : =T T
isspacep global|const|local|shared|shared::cta|shared::cluster|param|param::entry : =pred address
mapa ?shared::cluster u32|u64 : =T @T u32
getctarank ?shared::cluster u32|u64 : =u32 T
ld ?weak ?SPACE ?ca|cg|cs|lu|cv ?VECTOR MEMORY|b128 : {=~T} []
ld ?weak ?global ?ca|cg|cs|lu|cv ?HINT ?AHEAD ?VECTOR MEMORY|b128 : {=~T} [] hint
ld ?weak ?global NEAR|FAR ?FAR ?HINT ?AHEAD ?VECTOR MEMORY|b128 : {=~T} [] hint
ld volatile ?STRONG ?AHEAD ?VECTOR MEMORY|b128 : {=~T} []
ld relaxed|acquire SCOPE ?STRONG ?VECTOR MEMORY|b128 : {=~T} []
ld relaxed|acquire SCOPE ?global ?NEAR ?FAR ?HINT ?AHEAD ?VECTOR MEMORY|b128 : {=~T} [] hint
ld mmio relaxed sys ?global MEMORY : {=~T} []
ld global nc ?ca|cg|cs|NEAR ?FAR ?HINT ?AHEAD ?VECTOR MEMORY|b128 : {=~T} [] hint
ldu ?global ?VECTOR MEMORY : {=~T} []
st ?weak ?PLAIN ?wb|cg|cs|wt ?VECTOR MEMORY|b128 : [] {~T}
st ?weak ?global ?wb|cg|cs|wt ?HINT ?VECTOR MEMORY|b128 : [] {~T} hint
st ?weak ?global NEAR|FAR ?FAR ?HINT ?VECTOR MEMORY|b128 : [] {~T} hint
st volatile ?STRONG ?VECTOR MEMORY|b128 : [] {~T}
st relaxed|release SCOPE ?STRONG ?VECTOR MEMORY|b128 : [] {~T}
st relaxed|release SCOPE ?global ?NEAR ?FAR ?HINT ?VECTOR MEMORY|b128 : [] {~T} hint
st mmio relaxed sys ?global MEMORY : [] {~T}
atom ?SEM ?SCOPE ?STRONG and|or|xor ?HINT b32|b64 : =T [] T hint
atom ?SEM ?SCOPE ?STRONG exch ?HINT b32|b64|b128 : =T [] T hint
atom ?SEM ?SCOPE ?STRONG cas ?HINT b16|b32|b64|b128 : =T [] T T hint
atom ?SEM ?SCOPE ?STRONG add ?HINT u32|s32|u64|f32|f64 : =T [] T hint
atom ?SEM ?SCOPE ?STRONG inc|dec ?HINT u32 : =T [] T hint
atom ?SEM ?SCOPE ?STRONG min|max ?HINT WIDE : =T [] T hint
atom ?SEM ?SCOPE ?STRONG add noftz ?HINT f16|f16x2|bf16|bf16x2 : =T [] T hint
atom ?SEM ?SCOPE ?global add VECTOR ?HINT f32 : {=T} [] {T} hint
atom ?SEM ?SCOPE ?global add|min|max noftz VECTOR ?HINT f16|f16x2|bf16|bf16x2 : {=T} [] {T} hint
red ?relaxed|release ?SCOPE ?STRONG and|or|xor ?HINT b32|b64 : [] T hint
red ?relaxed|release ?SCOPE ?STRONG add ?HINT u32|s32|u64|f32|f64 : [] T hint
red ?relaxed|release ?SCOPE ?STRONG inc|dec ?HINT u32 : [] T hint
red ?relaxed|release ?SCOPE ?STRONG min|max ?HINT WIDE : [] T hint
red ?relaxed|release ?SCOPE ?STRONG add noftz ?HINT f16|f16x2|bf16|bf16x2 : [] T hint
red ?relaxed|release ?SCOPE ?global add VECTOR ?HINT f32 : [] {T} hint
red ?relaxed|release ?SCOPE ?global add|min|max noftz VECTOR ?HINT f16|f16x2|bf16|bf16x2 : [] {T} hint
red ^async relaxed cluster ?shared::cluster COMPLETE COMBINE u32|s32|u64|b32 : [shared] T [shared]
st ^async ?weak ?shared::cluster COMPLETE ?VECTOR WORD : [shared] {T} [shared]
bra ?uni : label
exit|trap|brkpt :
bar ?cta sync : barrier count?
bar ?cta arrive : barrier count
bar ^red popc u32 : =u32 barrier count?before !
bar ^red and|or pred : =pred barrier count?before !
bar ^cta ^red popc u32 : =u32 barrier count?before !
bar ^cta ^red and|or pred : =pred barrier count?before !
bar ^warp sync : u32
barrier ?cta sync ?aligned : barrier count?
barrier ?cta arrive ?aligned : barrier count
barrier ?cta red popc ?aligned u32 : =u32 barrier count?before !
barrier ?cta red and|or ?aligned pred : =pred barrier count?before !
barrier ^cluster ^arrive ?release|relaxed ?aligned :
barrier ^cluster ^wait ?acquire ?aligned :
membar cta|gl|sys :
fence ?sc|acq_rel|acquire|release SCOPE :
fence ^proxy alias :
fence ^proxy async ?global|shared::cta|shared::cluster :
fence mbarrier_init release cluster :
griddepcontrol launch_dependents|wait :
nanosleep u32 : u32
setmaxnreg ^inc|dec sync aligned u32 : #24-256/8
pmevent : #0-15
pmevent mask : #0-65535
prefetch ?global|local L1|L2 : []
prefetch global L2::evict_last|L2::evict_normal : []
prefetch ?const|param tensormap : []
prefetchu L1 : []
createpolicy fractional EVICTED ?EVICTED b64 : =b64 f32?
discard ?global L2 : [] #128-128
applypriority ?global L2::evict_normal : [] #128-128
ldmatrix sync aligned m8n8 x1 ?trans ?SHARED b16 : {=b32*1} [shared]
ldmatrix sync aligned m8n8 x2 ?trans ?SHARED b16 : {=b32*2} [shared]
ldmatrix sync aligned m8n8 x4 ?trans ?SHARED b16 : {=b32*4} [shared]
stmatrix sync aligned m8n8 x1 ?trans ?SHARED b16 : [shared] {b32*1}
stmatrix sync aligned m8n8 x2 ?trans ?SHARED b16 : [shared] {b32*2}
stmatrix sync aligned m8n8 x4 ?trans ?SHARED b16 : [shared] {b32*4}
movmatrix sync aligned m8n8 trans b16 : =b32 b32
cp ^async ca SHARED global ?HINT ?AHEAD : [shared] [global] #4-16*2 ignore? hint
cp ^async cg SHARED global ?HINT ?AHEAD : [shared] [global] #16-16 ignore? hint
cp ^async ^commit_group|wait_all :
cp ^async ^wait_group : #
cp ^async ^mbarrier arrive ?noinc ?SHARED b64 : [shared]
cp ^async ^bulk commit_group :
cp ^async ^bulk wait_group ?read : #
mbarrier ^init ?SHARED b64 : [shared] u32
mbarrier ^inval ?SHARED b64 : [shared]
mbarrier ^expect_tx|complete_tx ?relaxed ?cta|cluster ?SHARED|shared::cluster b64 : [shared] u32
mbarrier ^arrive|arrive_drop ?release|relaxed ?cta|cluster ?SHARED b64 : =b64 [shared] u32?
mbarrier ^arrive|arrive_drop ?release|relaxed ?cta|cluster shared::cluster b64 : _ [shared] u32?
mbarrier ^arrive|arrive_drop ^expect_tx ?release|relaxed ?cta|cluster ?SHARED b64 : =b64 [shared] u32
mbarrier ^arrive|arrive_drop ^expect_tx ?release|relaxed ?cta|cluster shared::cluster b64 : _ [shared] u32
mbarrier ^arrive|arrive_drop ^noComplete ?release ?cta ?SHARED b64 : =b64 [shared] u32
mbarrier ^test_wait ?acquire|relaxed ?cta|cluster ?SHARED b64 : =pred [shared] b64
mbarrier ^try_wait ?acquire|relaxed ?cta|cluster ?SHARED b64 : =pred [shared] b64 u32?
mbarrier ^test_wait ^parity ?acquire|relaxed ?cta|cluster ?SHARED b64 : =pred [shared] u32
mbarrier ^try_wait ^parity ?acquire|relaxed ?cta|cluster ?SHARED b64 : =pred [shared] u32 u32?
mbarrier ^pending_count b64 : =u32 b64
cp ^async ^bulk ^prefetch ^tensor DIM L2 global ?tile ?HINT : [tensor] hint
cp ^async ^bulk ^prefetch L2 global ?HINT : [global] u32 hint
cp ^async ^bulk ^tensor DIM shared::cluster|shared::cta global ?tile COMPLETE ?HINT : [shared] [tensor] [shared] hint
cp ^async ^bulk ^tensor DIM shared::cluster global ?tile COMPLETE MANY ?HINT : [shared] [tensor] [shared] b16 hint
cp ^async ^bulk ^tensor DIM global shared::cta ?tile bulk_group ?HINT : [tensor] [shared] hint
cp ^async ^bulk shared::cluster|shared::cta global COMPLETE ?HINT : [shared] [global] u32 [shared] hint
cp ^async ^bulk shared::cluster global COMPLETE MANY ?HINT : [shared] [global] u32 [shared] b16 hint
cp ^async ^bulk shared::cluster shared::cta COMPLETE : [shared] [shared] u32 [shared]
cp ^async ^bulk global shared::cta bulk_group ?HINT : [global] [shared] u32 hint
cp ^reduce ^async ^bulk ^tensor DIM global shared::cta COMBINE ?tile bulk_group ?HINT : [tensor] [shared] hint
cp ^reduce ^async ^bulk shared::cluster shared::cta COMPLETE COMBINE s32|u32|u64|b32 : [shared] [shared] u32 [shared]
cp ^reduce ^async ^bulk global shared::cta bulk_group ?HINT COMBINE REDUCED : [global] [shared] u32 hint
cp ^reduce ^async ^bulk global shared::cta bulk_group ?HINT add noftz f16|bf16 : [global] [shared] u32 hint
mma sync aligned m16n8k8 row col f16 f16 f16 f16 : {=b32*2} {b32*2} {b32*1} {b32*2}
mma sync aligned m16n8k8 row col f32 f16 f16 f32 : {=f32*4} {b32*2} {b32*1} {f32*4}
mma sync aligned m16n8k8 row col f32 bf16 bf16 f32 : {=f32*4} {b32*2} {b32*1} {f32*4}
mma sync aligned m16n8k16 row col f16 f16 f16 f16 : {=b32*2} {b32*4} {b32*2} {b32*2}
mma sync aligned m16n8k16 row col f32 f16 f16 f32 : {=f32*4} {b32*4} {b32*2} {f32*4}
mma sync aligned m16n8k16 row col f32 bf16 bf16 f32 : {=f32*4} {b32*4} {b32*2} {f32*4}
mma sync aligned m16n8k4 row col f32 tf32 tf32 f32 : {=f32*4} {b32*2} {b32*1} {f32*4}
mma sync aligned m16n8k8 row col f32 tf32 tf32 f32 : {=f32*4} {b32*4} {b32*2} {f32*4}
mma sync aligned m16n8k16 row col f32 FP8 FP8 f32 : {=f32*4} {b32*2} {b32*1} {f32*4}
mma sync aligned m16n8k32 row col f32 FP8 FP8 f32 : {=f32*4} {b32*4} {b32*2} {f32*4}
mma sync aligned m16n8k16 row col f16 FP8 FP8 f16 : {=b32*2} {b32*2} {b32*1} {b32*2}
mma sync aligned m16n8k32 row col f16 FP8 FP8 f16 : {=b32*2} {b32*4} {b32*2} {b32*2}
mma sync aligned m8n8k16 row col ?satfinite s32 INT8 INT8 s32 : {=s32*2} {b32*1} {b32*1} {s32*2}
mma sync aligned m16n8k16 row col ?satfinite s32 INT8 INT8 s32 : {=s32*4} {b32*2} {b32*1} {s32*4}
mma sync aligned m16n8k32 row col ?satfinite s32 INT8 INT8 s32 : {=s32*4} {b32*4} {b32*2} {s32*4}
mma sync aligned m8n8k32 row col ?satfinite s32 INT4 INT4 s32 : {=s32*2} {b32*1} {b32*1} {s32*2}
mma sync aligned m16n8k32 row col ?satfinite s32 INT4 INT4 s32 : {=s32*4} {b32*2} {b32*1} {s32*4}
mma sync aligned m16n8k64 row col ?satfinite s32 INT4 INT4 s32 : {=s32*4} {b32*4} {b32*2} {s32*4}
mma sync aligned m8n8k4 row col f64 f64 f64 f64 : {=f64*2} {f64*1} {f64*1} {f64*2}
mma sync aligned m16n8k4 row col f64 f64 f64 f64 : {=f64*4} {f64*2} {f64*1} {f64*4}
mma sync aligned m16n8k8 row col f64 f64 f64 f64 : {=f64*4} {f64*4} {f64*2} {f64*4}
mma sync aligned m16n8k16 row col f64 f64 f64 f64 : {=f64*4} {f64*8} {f64*4} {f64*4}
wmma ^load ^a|b sync aligned row|col TILE ?NEARBY f16 : {=s32*8} [] u32?
wmma ^load ^a|b sync aligned row|col m16n16k16 ?NEARBY bf16 : {=s32*4} [] u32?
wmma ^load ^a sync aligned row|col m8n32k16 ?NEARBY bf16 : {=s32*2} [] u32?
wmma ^load ^b sync aligned row|col m8n32k16 ?NEARBY bf16 : {=s32*8} [] u32?
wmma ^load ^a sync aligned row|col m32n8k16 ?NEARBY bf16 : {=s32*8} [] u32?
wmma ^load ^b sync aligned row|col m32n8k16 ?NEARBY bf16 : {=s32*2} [] u32?
wmma ^load ^a|b sync aligned row|col m16n16k16 ?NEARBY INT8 : {=s32*2} [] u32?
wmma ^load ^a sync aligned row|col m8n32k16 ?NEARBY INT8 : {=s32*1} [] u32?
wmma ^load ^b sync aligned row|col m8n32k16 ?NEARBY INT8 : {=s32*4} [] u32?
wmma ^load ^a sync aligned row|col m32n8k16 ?NEARBY INT8 : {=s32*4} [] u32?
wmma ^load ^b sync aligned row|col m32n8k16 ?NEARBY INT8 : {=s32*1} [] u32?
wmma ^load ^a|b sync aligned row|col m16n16k8 ?NEARBY tf32 : {=s32*4} [] u32?
wmma ^load ^a|b sync aligned row|col m8n8k4 ?NEARBY f64 : {=f64*1} [] u32?
wmma ^load ^c sync aligned row|col TILE ?NEARBY f16 : {=s32*4} [] u32?
wmma ^load ^c sync aligned row|col TILE|m16n16k8 ?NEARBY f32 : {=f32*8} [] u32?
wmma ^load ^c sync aligned row|col TILE ?NEARBY s32 : {=s32*8} [] u32?
wmma ^load ^c sync aligned row|col m8n8k4 ?NEARBY f64 : {=f64*2} [] u32?
wmma ^store ^d sync aligned row|col TILE ?NEARBY f16 : [] {s32*4} u32?
wmma ^store ^d sync aligned row|col TILE|m16n16k8 ?NEARBY f32 : [] {f32*8} u32?
wmma ^store ^d sync aligned row|col TILE ?NEARBY s32 : [] {s32*8} u32?
wmma ^store ^d sync aligned row|col m8n8k4 ?NEARBY f64 : [] {f64*2} u32?
wmma ^mma sync aligned row|col row|col TILE f16 f16 : {=s32*4} {s32*8} {s32*8} {s32*4}
wmma ^mma sync aligned row|col row|col TILE f16 f32 : {=s32*4} {s32*8} {s32*8} {f32*8}
wmma ^mma sync aligned row|col row|col TILE f32 f16 : {=f32*8} {s32*8} {s32*8} {s32*4}
wmma ^mma sync aligned row|col row|col TILE f32 f32 : {=f32*8} {s32*8} {s32*8} {f32*8}
wmma ^mma sync aligned row|col row|col m16n16k16 f32 bf16 bf16 f32 : {=f32*8} {s32*4} {s32*4} {f32*8}
wmma ^mma sync aligned row|col row|col m8n32k16 f32 bf16 bf16 f32 : {=f32*8} {s32*2} {s32*8} {f32*8}
wmma ^mma sync aligned row|col row|col m32n8k16 f32 bf16 bf16 f32 : {=f32*8} {s32*8} {s32*2} {f32*8}
wmma ^mma sync aligned row|col row|col m16n16k16 ?satfinite s32 s8 s8 s32 : {=s32*8} {s32*2} {s32*2} {s32*8}
wmma ^mma sync aligned row|col row|col m16n16k16 ?satfinite s32 u8 u8 s32 : {=s32*8} {s32*2} {s32*2} {s32*8}
wmma ^mma sync aligned row|col row|col m8n32k16 ?satfinite s32 s8 s8 s32 : {=s32*8} {s32*1} {s32*4} {s32*8}
wmma ^mma sync aligned row|col row|col m8n32k16 ?satfinite s32 u8 u8 s32 : {=s32*8} {s32*1} {s32*4} {s32*8}
wmma ^mma sync aligned row|col row|col m32n8k16 ?satfinite s32 s8 s8 s32 : {=s32*8} {s32*4} {s32*1} {s32*8}
wmma ^mma sync aligned row|col row|col m32n8k16 ?satfinite s32 u8 u8 s32 : {=s32*8} {s32*4} {s32*1} {s32*8}
wmma ^mma sync aligned row|col row|col m16n16k8 f32 tf32 tf32 f32 : {=f32*8} {s32*4} {s32*4} {f32*8}
wmma ^mma sync aligned row|col row|col m8n8k4 ?rn f64 f64 f64 f64 : {=f64*2} {f64*1} {f64*1} {f64*2}
wgmma ^mma_async sync aligned M64 f16|f32 f16 f16 : {=sums} u64 u64 ! #signed #signed #0-1 #0-1
wgmma ^mma_async sync aligned M64 f16|f32 f16 f16 : {=sums} {b32*4} u64 ! #signed #signed #0-1
wgmma ^mma_async sync aligned M64 f32 bf16 bf16 : {=sums} u64 u64 ! #signed #signed #0-1 #0-1
wgmma ^mma_async sync aligned M64 f32 bf16 bf16 : {=sums} {b32*4} u64 ! #signed #signed #0-1
wgmma ^mma_async sync aligned M64 f32 tf32 tf32 : {=sums} fragment u64 ! #signed #signed
wgmma ^mma_async sync aligned M64 f16|f32 FP8 FP8 : {=sums} fragment u64 ! #signed #signed
wgmma ^mma_async sync aligned M64 ?satfinite s32 INT8 INT8 : {=sums} fragment u64 !
wgmma ^fence|commit_group sync aligned :
wgmma ^wait_group sync aligned : #
"""
