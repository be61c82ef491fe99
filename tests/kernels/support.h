// What the tests of the CPU's kernels share: queues for every instruction set of this machine,
// random tensors, comparisons with a bound for each element, finite differences.
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
#include "kernels/cpu/reference.h"

namespace foretrain::test {

using reference::Tensor;
using Floats = std::vector<float>;
using Ids = std::vector<std::int32_t>;

// Rounding error of one fp32 operation, relative.
constexpr double kUnit = 1.0 / (1 << 24);

// Bound of the relative error that n roundings leave in a sum or a product: n units at worst. From
// 16 on 4 sqrt(n) units, since their signs vary: for independent ones a bound of probability 1 - 2
// e^-8 (Higham and Mary 2019, theorem 3.1), and the tests' numbers are the same in every run.
double Roundings(std::int64_t n);

// Sizes around the vectors' and the blocks' edges.
inline const std::vector<std::int64_t> kRaggedSizes = {1, 31, 32, 33, 65};

// Kernels of one instruction set with one GEMM, or those of CUDA executed on the host
// (kernels/cuda/host_shim.h), their threads in one order, or on a GPU.
enum class CudaThreads { kNone, kForward, kReverse, kRandom, kGpu };
struct Variant {
  const VectorKernels* kernels;  // null: CUDA's
  GemmBackend gemm = GemmBackend::kBuiltIn;
  CudaThreads cuda = CudaThreads::kNone;
};
std::string Name(const Variant& variant);
void PrintTo(const Variant& variant, std::ostream* out);

// Every instruction set that this machine has; oneDNN beside the first, where the build has it.
std::vector<Variant> CpuVariants();
// The three orders of CUDA's threads; none where they cannot be executed.
std::vector<Variant> CudaVariants();
// Both; in kernels_gpu_tests CUDA's on a GPU alone.
std::vector<Variant> AllVariants();

// Makes `table` that of the variant on a GPU.
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

  // Whose entries cannot look at ids and counts, which lie in device memory.
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

// n numbers of size up to `scale`, the same for the same seed on every machine.
Floats Random(std::int64_t n, std::uint32_t seed, float scale = 1.0F);

Tensor ToDouble(const Floats& x);
Tensor Absolute(const Tensor& x);

// |actual - expected| <= tolerance, element by element; tolerances of one element stand for all.
// Reports the first that is not.
void ExpectClose(const Floats& actual, const Tensor& expected, const Tensor& tolerance,
                 const std::string& what);

// x * factor + floor for every element: a tolerance from magnitudes. The floor covers numbers near
// the smallest of fp32.
Tensor Scaled(const Tensor& magnitudes, double factor, double floor = 1e-36);

// The gradient of `loss` at `x` by central differences: (f(x + h) - f(x - h)) / 2h with h = 1e-5.
// Its error is h^2/6 |f'''| + 2^-53 |f| / h, about 2e-11 (|f'''| + |f|).
Tensor DifferenceGradient(const Tensor& x, const std::function<double(const Tensor&)>& loss);

// Sum of x * weights: a loss whose gradient by x is `weights`.
double Dot(const Tensor& x, const Tensor& weights);

// Expects `gradient` to be the difference gradient, each element within 1e-8 * (1 + its size): five
// hundred times the error of the differences for the functions here, whose third derivatives and
// values are below 100.
void ExpectGradient(const Tensor& gradient, const Tensor& x,
                    const std::function<double(const Tensor&)>& loss, const std::string& what);

// The bits, so that NaN and -0 count.
std::vector<std::uint32_t> Bits(const Floats& x);

}  // namespace foretrain::test
