// CUB's device-wide algorithms behind a C interface, as baselines.  The first call, with a null `temp`, stores the bytes of temporary memory.
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cstdint>

extern "C" {
int cub_scan_i32(void* temp, size_t* bytes, const int* x, int* out, int64_t n, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(temp, *bytes, x, out, n, stream);
}
int cub_scan_f32(void* temp, size_t* bytes, const float* x, float* out, int64_t n, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(temp, *bytes, x, out, n, stream);
}
int cub_reduce_f32(void* temp, size_t* bytes, const float* x, float* out, int64_t n, cudaStream_t stream) {
    return cub::DeviceReduce::Sum(temp, *bytes, x, out, n, stream);
}
int cub_histogram_u8(void* temp, size_t* bytes, const unsigned char* x, int* out, int64_t n, cudaStream_t stream) {
    return cub::DeviceHistogram::HistogramEven(temp, *bytes, x, out, 257, 0, 256, n, stream);
}
}
