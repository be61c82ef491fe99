#include "runtime/calibrate/graph_launches.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/units.h"
#include "runtime/device/device.h"

namespace foretrain {
namespace {

constexpr std::int64_t kElements = 256;  // of a kernel: next to no work

// Owns one queue and the memory of the kernels that the graphs launch.
class GraphTimer {
 public:
  GraphTimer(const FtDeviceApi& api, const RunClock& clock) : api_(api), clock_(clock) {}

  Result<void> Open(int device) {
    FT_ASSIGN(queue_, DeviceQueue::Make(api_, device));
    FT_ASSIGN(memory_, DeviceMemory::Make(api_, device, 2 * kElements * 4));
    return Check(api_.fill(queue_.get(), memory_.data(), 0, 2 * kElements * 4), "fill");
  }

  // Host seconds for one launch; nullopt if the device cannot capture such a graph. The clock stops
  // before the device is synchronized. The median ignores launches during which the host was
  // preempted.
  Result<std::optional<double>> LaunchOf(int ops, const std::function<bool()>& stop) {
    FT_TRY(Check(Kernel(), "launch a kernel"));  // loads the kernel
    const DeviceGraph graph = Note(ops);
    if (graph.get() == nullptr) return std::optional<double>();
    std::vector<std::int64_t> took_ns;
    for (int i = -1; i < kLaunches; ++i) {  // the first launch uploads the graph
      if (stop && stop()) return Fail(ErrorCode::kAborted, "calibration was stopped");
      const std::int64_t before_ns = clock_.Now();
      FT_TRY(Check(api_.graph_launch(queue_.get(), graph.get()), "launch a graph"));
      if (i >= 0) took_ns.push_back(clock_.Now() - before_ns);
      FT_TRY(Check(api_.queue_synchronize(queue_.get()), "run a graph"));
    }
    const auto middle = took_ns.begin() + kLaunches / 2;
    std::nth_element(took_ns.begin(), middle, took_ns.end());
    return std::optional(SecondsFromNs(*middle));
  }

 private:
  Result<void> Check(FtStatus status, const char* what) {
    return Checked(status, what, api_.queue_error(queue_.get()));
  }

  FtStatus Kernel() {
    FtGelu gelu{};
    gelu.x = memory_.data();
    gelu.out = memory_.data() + kElements * 4;
    gelu.elements = kElements;
    gelu.dtype = FT_F32;
    gelu.activation = FT_RELU;
    return api_.gelu_forward(queue_.get(), &gelu);
  }

  // Captures a graph of `ops` kernels. Null if that fails: no error, because the executor then runs
  // op by op.
  DeviceGraph Note(int ops) {
    if (api_.graph_begin(queue_.get()) != FT_OK) return {};
    bool noted = true;
    for (int i = 0; i < ops; ++i) noted = Kernel() == FT_OK && noted;
    FtGraph* made = nullptr;
    noted = api_.graph_end(queue_.get(), &made) == FT_OK && noted;
    DeviceGraph graph(api_, made);
    return noted ? std::move(graph) : DeviceGraph();
  }

  const FtDeviceApi& api_;
  const RunClock& clock_;
  DeviceQueue queue_;
  DeviceMemory memory_;
};

}  // namespace

// Two sizes and a line: slope is the cost of an op, intercept that of the launch. Noise below zero
// is cut off.
Result<std::optional<GraphLaunches>> TimeGraphLaunches(const FtDeviceApi& api, int device,
                                                       const RunClock& clock,
                                                       const std::function<bool()>& stop) {
  if (api.graph_begin == nullptr) return std::optional<GraphLaunches>();
  GraphTimer timer(api, clock);
  FT_TRY(timer.Open(device));
  FT_ASSIGN(const std::optional<double> few_s, timer.LaunchOf(kFewOps, stop));
  FT_ASSIGN(const std::optional<double> many_s, timer.LaunchOf(kManyOps, stop));
  if (!few_s || !many_s) return std::optional<GraphLaunches>();
  const double op_s = std::max(0.0, (*many_s - *few_s) / (kManyOps - kFewOps));
  return std::optional(GraphLaunches{std::max(0.0, *few_s - kFewOps * op_s), op_s});
}

}  // namespace foretrain
