// Structs: as locals, parameters, results, in global, shared and local arrays; three floats; what a name of the file stands for.
struct Point { float x, y; int tag; };
struct Pair { Point first; double weight; short kind[2]; };
__constant__ float scale[3];
__device__ int hits;

__device__ Point moved(Point p, float by) {
    p.x += by;
    p.tag = -p.tag;
    return p;
}
__device__ void swap(Point& a, Point& b) { Point t = a; a = b; b = t; }
__device__ float3 cross(float3 a, float3 b) {
    return make_float3(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}

__global__ void __launch_bounds__(64) points(const Point* in, Pair* out, int n) {
    __shared__ Point tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? in[i] : in[0];
    __syncthreads();
    Point p = tile[63 - threadIdx.x], q = {1.0f, 2.0f, 3};
    swap(p, q);
    Point own[2] = {};
    own[1] = moved(q, 0.5f);
    own[0].x = q.tag == tile[63 - threadIdx.x].tag ? p.y : -1.0f;  // what `moved` changed was its own
    if (i < n) {
        out[i].first = own[1];
        out[i].first.y = own[0].x + scale[i % 3];
        out[i].weight = (double)in[i].x / 3;
        out[i].kind[i & 1] = (short)(in[i].tag * 1000);
        Pair* mine = out + i;
        mine->kind[1 - (i & 1)] = 7;
        if (mine->first.tag < -20) atomicAdd(&hits, 1);
    }
}

__global__ void __launch_bounds__(32) crossed(const float3* a, const float3* b, float3* c, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) c[i] = cross(a[i], b[i]);
}
