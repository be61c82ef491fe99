// Shared by kernel tests: queues for every instruction set of this machine, random tensors,
// comparisons with a bound for each element, and finite differences.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "base/device_api.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_queue.h"
#include "tests/kernels/reference/reference.h"

namespace foretrain::test {

using reference::Tensor;
using Floats = std::vector<float>;
using Ids = std::vector<std::int32_t>;

// Relative rounding error of one fp32 operation.
constexpr double kUnit = 1.0 / (1 << 24);

// Bound of the relative error after n rounding errors in a sum or product: n units at worst. From n
// = 16 on it is 4 sqrt(n) units, because signs vary. For independent errors that holds with
// probability 1 - 2 e^-8 (Higham and Mary 2019, theorem 3.1); the tests' numbers are the same in
// every run.
double Roundings(std::int64_t n);

// Sizes around the edges of vectors and blocks.
inline const std::vector<std::int64_t> kRaggedSizes = {1, 31, 32, 33, 65};

// How kernels run: those of one CPU instruction set with one GEMM; those of CUDA on the host
// (tests/plugins/shim/host_shim.h), with threads in one order; or those of CUDA on a GPU.
enum class CudaThreads { kNone, kForward, kReverse, kRandom, kGpu };
struct Variant {
  const VectorKernels* kernels;  // null: CUDA
  GemmBackend gemm = GemmBackend::kBuiltIn;
  CudaThreads cuda = CudaThreads::kNone;
};
std::string Name(const Variant& variant);
void PrintTo(const Variant& variant, std::ostream* out);

// Every instruction set of this machine. The first one also with oneDNN, if the build has it.
std::vector<Variant> CpuVariants();
// The three orders of CUDA's threads; empty where the host cannot run them.
std::vector<Variant> CudaVariants();
// Variants of both; in kernels_gpu_tests only CUDA on a GPU.
std::vector<Variant> AllVariants();

// Sets the table of the variant on a GPU.
void UseGpu(const FtDeviceApi& table);

const FtDeviceApi& ApiOf(const Variant& variant);

struct QueueDestroyer {
  const FtDeviceApi* api = &CpuDeviceApi();
  void operator()(FtQueue* queue) const { api->queue_destroy(queue); }
};
using Queue = std::unique_ptr<FtQueue, QueueDestroyer>;
Queue MakeQueue(const Variant& variant);

// Runs a test on each variant.
class KernelTest : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override { ASSERT_NE(queue_, nullptr); }

  // Calls an entry of the table and expects FT_OK.
  template <class Arguments>
  void Run(FtStatus (*entry)(FtQueue*, const Arguments*), const Arguments& arguments) {
    EXPECT_EQ(entry(queue_.get(), &arguments), FT_OK) << api_.queue_error(queue_.get());
  }

  // True for CUDA variants, whose entries cannot check ids and counts in device memory.
  bool IsCuda() const { return GetParam().cuda != CudaThreads::kNone; }

  const FtDeviceApi& api_ = ApiOf(GetParam());
  Queue queue_ = MakeQueue(GetParam());
};

#define FT_TEST_ALL_VARIANTS(suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(Variants, suite, testing::ValuesIn(::foretrain::test::AllVariants()), \
                           [](const auto& i) { return ::foretrain::test::Name(i.param); })

#define FT_TEST_CPU_VARIANTS(suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(Variants, suite, testing::ValuesIn(::foretrain::test::CpuVariants()), \
                           [](const auto& i) { return ::foretrain::test::Name(i.param); })

// n numbers of size up to `scale`. A seed gives the same numbers on every machine.
Floats Random(std::int64_t n, std::uint32_t seed, float scale = 1.0F);

Tensor ToDouble(const Floats& x);
Tensor Absolute(const Tensor& x);

// Expects |actual - expected| <= tolerance for each element. A tolerance with one element applies
// to all. Reports the first mismatch.
void ExpectClose(const Floats& actual, const Tensor& expected, const Tensor& tolerance,
                 const std::string& what);

// x * factor + floor for every element: a tolerance from magnitudes. The floor covers numbers near
// the smallest of fp32.
Tensor Scaled(const Tensor& magnitudes, double factor, double floor = 1e-36);

// Gradient of `loss` at `x` by central differences: (f(x + h) - f(x - h)) / 2h with h = 1e-5. The
// error is h^2/6 |f'''| + 2^-53 |f| / h, about 2e-11 (|f'''| + |f|).
Tensor DifferenceGradient(const Tensor& x, const std::function<double(const Tensor&)>& loss);

// Sum of x * weights: a loss whose gradient with respect to x is `weights`.
double Dot(const Tensor& x, const Tensor& weights);

// Expects `gradient` to equal the difference gradient, each element within 1e-8 * (1 + its size).
// That is 500 times the error of the differences for the functions here, whose values and third
// derivatives are below 100.
void ExpectGradient(const Tensor& gradient, const Tensor& x,
                    const std::function<double(const Tensor&)>& loss, const std::string& what);

// Bit patterns, so that comparisons distinguish NaN and -0.
std::vector<std::uint32_t> Bits(const Floats& x);

}  // namespace foretrain::test
