#include "profiler/gpu_activity.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

namespace foretrain {
namespace {

// Structures and numbers of NVML's GPM functions, from its reference manual.
constexpr int kSuccess = 0;
constexpr unsigned kVersion = 1;  // NVML_GPM_SUPPORT_VERSION, NVML_GPM_METRICS_GET_VERSION

struct Support {  // nvmlGpmSupport_t
  unsigned version = kVersion;
  unsigned is_supported = 0;
};
struct Metric {  // nvmlGpmMetric_t
  unsigned id = 0;
  int status = kSuccess;
  double value = 0;
  std::array<char*, 3> names{};  // short name, long name, unit
};

// Counters to ask for.
struct Wanted {
  unsigned id;  // nvmlGpmMetricId_t
  const char* series;
  bool share;  // NVML gives percent, otherwise MiB/s
};
constexpr double kMiB = 1048576.0;
constexpr std::array kWanted{
    Wanted{2, "gpu_sm_activity", true},
    Wanted{3, "gpu_sm_occupancy", true},
    Wanted{4, "gpu_integer_activity", true},
    Wanted{5, "gpu_tensor_activity", true},
    Wanted{10, "gpu_dram_share", true},
    Wanted{11, "gpu_fp64_activity", true},
    Wanted{12, "gpu_fp32_activity", true},
    Wanted{13, "gpu_fp16_activity", true},
    Wanted{20, "gpu_pcie_tx_bytes_per_s", false},
    Wanted{21, "gpu_pcie_rx_bytes_per_s", false},
    Wanted{60, "gpu_nvlink_rx_bytes_per_s", false},
    Wanted{61, "gpu_nvlink_tx_bytes_per_s", false},
};

// nvmlGpmMetricsGet_t ends in an array for all metrics of the header, which has grown since the
// first one with 98. Its version has not, so the library cannot rely on more than these.
struct Request {
  unsigned version = kVersion;
  unsigned count = kWanted.size();
  void* from = nullptr;
  void* to = nullptr;
  std::array<Metric, 98> metrics{};  // the first `count` are wanted
};

}  // namespace

struct GpuActivity::Functions {
  int (*support)(NvmlDevice*, Support*) = nullptr;
  int (*allocate)(void**) = nullptr;
  int (*free)(void*) = nullptr;
  int (*sample)(NvmlDevice*, void*) = nullptr;
  int (*metrics)(Request*) = nullptr;
};

GpuActivity::GpuActivity(std::unique_ptr<Functions> functions, NvmlDevice* gpu)
    : functions_(std::move(functions)), gpu_(gpu) {}

GpuActivity::~GpuActivity() {
  for (void* const sample : {before_, now_}) {
    if (sample != nullptr) functions_->free(sample);
  }
}

// A sample is read at once: a GPU that refuses it has no counters either.
std::unique_ptr<GpuActivity> GpuActivity::Open(const Nvml& nvml, NvmlDevice* gpu) {
  auto functions = std::make_unique<Functions>();
  Functions& f = *functions;
  const bool found =
      nvml.Find("nvmlGpmQueryDeviceSupport", f.support) &&
      nvml.Find("nvmlGpmSampleAlloc", f.allocate) && nvml.Find("nvmlGpmSampleFree", f.free) &&
      nvml.Find("nvmlGpmSampleGet", f.sample) && nvml.Find("nvmlGpmMetricsGet", f.metrics);
  Support support;
  if (!found || f.support(gpu, &support) != kSuccess || support.is_supported == 0) return nullptr;
  std::unique_ptr<GpuActivity> out(new GpuActivity(std::move(functions), gpu));
  if (f.allocate(&out->before_) != kSuccess || f.allocate(&out->now_) != kSuccess ||
      f.sample(gpu, out->now_) != kSuccess) {
    return nullptr;
  }
  return out;
}

// The two samples take turns. A reading that fails leaves the older sample in place, so the next
// one covers its time too.
void GpuActivity::Read(int rank, std::int64_t time_ns, std::vector<Counter>& out) {
  if (functions_->sample(gpu_, now_) != kSuccess) return;
  if (before_ns_) {
    Request request{.from = before_, .to = now_};
    for (std::size_t i = 0; i < kWanted.size(); ++i) request.metrics[i].id = kWanted[i].id;
    if (functions_->metrics(&request) != kSuccess) return;
    for (std::size_t i = 0; i < kWanted.size(); ++i) {
      const Metric& metric = request.metrics[i];
      if (metric.status != kSuccess || !std::isfinite(metric.value)) continue;
      const double value = kWanted[i].share ? metric.value / 100 : metric.value * kMiB;
      out.push_back({kWanted[i].series, rank, -1, *before_ns_, value});
    }
  }
  std::swap(before_, now_);
  before_ns_ = time_ns;
}

}  // namespace foretrain
