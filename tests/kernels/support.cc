#include "tests/kernels/support.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ostream>
#include <random>

#if FORETRAIN_HAVE_CUDA_SHIM
#include "tests/plugins/shim/host_shim.h"
#include "tests/plugins/shim/shim_device.h"
#undef __restrict__
#endif

namespace foretrain::test {
namespace {

const FtDeviceApi* gpu = nullptr;  // set by UseGpu

}  // namespace

double Roundings(std::int64_t n) {
  const auto count = static_cast<double>(n);
  return std::min(count, 4.0 * std::sqrt(count)) * kUnit;
}

std::string Name(const Variant& variant) {
  if (variant.cuda == CudaThreads::kForward) return "cuda_forward";
  if (variant.cuda == CudaThreads::kReverse) return "cuda_reverse";
  if (variant.cuda == CudaThreads::kRandom) return "cuda_random";
  if (variant.cuda == CudaThreads::kGpu) return "cuda_gpu";
  return std::string(variant.kernels->name) +
         (variant.gemm == GemmBackend::kOneDnn ? "_onednn" : "");
}

void PrintTo(const Variant& variant, std::ostream* out) { *out << Name(variant); }

std::vector<Variant> CpuVariants() {
  std::vector<Variant> variants;
  const UsableVectorKernels usable = FindUsableVectorKernels();
  variants.reserve(static_cast<std::size_t>(usable.count) + 1);
  for (int i = 0; i < usable.count; ++i) {
    variants.push_back({usable.tables[i], GemmBackend::kBuiltIn});
  }
  if (HasGemmBackend(GemmBackend::kOneDnn)) {
    variants.push_back({usable.tables[0], GemmBackend::kOneDnn});
  }
  return variants;
}

std::vector<Variant> CudaVariants() {
  std::vector<Variant> variants;
  // ThreadSanitizer does not support fibers.
#if FORETRAIN_HAVE_CUDA_SHIM && !defined(__SANITIZE_THREAD__)
  for (const CudaThreads cuda :
       {CudaThreads::kForward, CudaThreads::kReverse, CudaThreads::kRandom}) {
    variants.push_back({nullptr, GemmBackend::kBuiltIn, cuda});
  }
#endif
  return variants;
}

void UseGpu(const FtDeviceApi& table) { gpu = &table; }

std::vector<Variant> AllVariants() {
  if (gpu != nullptr) return {{nullptr, GemmBackend::kBuiltIn, CudaThreads::kGpu}};
  std::vector<Variant> variants = CpuVariants();
  const std::vector<Variant> cuda = CudaVariants();
  variants.insert(variants.end(), cuda.begin(), cuda.end());
  return variants;
}

const FtDeviceApi& ApiOf(const Variant& variant) {
  if (variant.cuda == CudaThreads::kGpu) return *gpu;
#if FORETRAIN_HAVE_CUDA_SHIM
  if (variant.cuda != CudaThreads::kNone) return ShimDeviceApi();
#endif
  static_cast<void>(variant);
  return CpuDeviceApi();
}

Queue MakeQueue(const Variant& variant) {
  if (variant.cuda == CudaThreads::kGpu) {
    FtQueue* queue = nullptr;
    char why[256] = "";
    if (gpu->queue_create(0, &queue, why, sizeof why) != FT_OK) ADD_FAILURE() << why;
    return {queue, QueueDestroyer{gpu}};
  }
#if FORETRAIN_HAVE_CUDA_SHIM
  if (variant.cuda != CudaThreads::kNone) {
    shim::order = variant.cuda == CudaThreads::kForward   ? shim::Order::kForward
                  : variant.cuda == CudaThreads::kReverse ? shim::Order::kReverse
                                                          : shim::Order::kRandom;
    FtQueue* queue = nullptr;
    char why[256] = "";
    ShimDeviceApi().queue_create(0, &queue, why, sizeof why);
    return {queue, QueueDestroyer{&ShimDeviceApi()}};
  }
#endif
  return Queue(MakeCpuQueue(*variant.kernels, variant.gemm));
}

Floats Random(std::int64_t n, std::uint32_t seed, float scale) {
  // The same numbers on every platform, unlike the standard distributions.
  std::mt19937 engine(seed);
  Floats x;
  for (std::int64_t i = 0; i < n; ++i) {
    const double unit = static_cast<double>(engine()) / 4294967296.0;
    x.push_back(static_cast<float>(2.0 * unit - 1.0) * scale);
  }
  return x;
}

Tensor ToDouble(const Floats& x) { return {x.begin(), x.end()}; }

Tensor Absolute(const Tensor& x) {
  Tensor y = x;
  for (double& v : y) {
    v = std::abs(v);
  }
  return y;
}

void ExpectClose(const Floats& actual, const Tensor& expected, const Tensor& tolerance,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  ASSERT_TRUE(tolerance.size() == 1 || tolerance.size() == expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double bound = tolerance[tolerance.size() == 1 ? 0 : i];
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    ASSERT_LE(error, bound) << what << ": element " << i << " of " << actual.size() << " is "
                            << actual[i] << ", expected " << expected[i];
  }
}

Tensor Scaled(const Tensor& magnitudes, double factor, double floor) {
  Tensor y = magnitudes;
  for (double& v : y) {
    v = std::abs(v) * factor + floor;
  }
  return y;
}

Tensor DifferenceGradient(const Tensor& x, const std::function<double(const Tensor&)>& loss) {
  constexpr double kStep = 1e-5;
  Tensor gradient;
  Tensor moved = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    moved[i] = x[i] + kStep;
    const double above = loss(moved);
    moved[i] = x[i] - kStep;
    const double below = loss(moved);
    moved[i] = x[i];
    gradient.push_back((above - below) / (2.0 * kStep));
  }
  return gradient;
}

double Dot(const Tensor& x, const Tensor& weights) {
  double sum = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * weights[i];
  }
  return sum;
}

void ExpectGradient(const Tensor& gradient, const Tensor& x,
                    const std::function<double(const Tensor&)>& loss, const std::string& what) {
  const Tensor expected = DifferenceGradient(x, loss);
  ASSERT_EQ(gradient.size(), expected.size()) << what;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_NEAR(gradient[i], expected[i], 1e-8 * (1.0 + std::abs(expected[i])))
        << what << ": element " << i;
  }
}

std::vector<std::uint32_t> Bits(const Floats& x) {
  std::vector<std::uint32_t> bits;
  for (const float v : x) {
    bits.push_back(std::bit_cast<std::uint32_t>(v));
  }
  return bits;
}

}  // namespace foretrain::test
