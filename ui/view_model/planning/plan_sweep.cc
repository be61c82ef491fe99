#include "ui/view_model/planning/plan_sweep.h"

#include <array>
#include <utility>

#include "sim/config/catalogue/catalogue.h"

namespace foretrain::ui {
namespace {

constexpr int kDoublings = 6;  // each way

std::int64_t ValueOf(const Scenario& scenario, SweptField field) {
  switch (field) {
    case SweptField::kSequence:
      return scenario.plan.sequence;
    case SweptField::kDevices:
      return scenario.cluster.Devices();
    case SweptField::kGlobalBatch:
      return scenario.plan.global_batch;
    case SweptField::kMicroBatch:
      break;
  }
  return scenario.plan.micro_batch;
}

// As What-if's slider of nodes: dp takes up the change. Returns why it cannot.
std::string SetDevices(std::int64_t devices, Scenario& scenario) {
  ClusterSpec& cluster = scenario.cluster;
  const int per_node = cluster.devices_per_node;
  if (cluster.is_cpu) return "the machine is this CPU";
  // Fewer devices than a node has leave the rest of the node idle.
  const auto nodes = static_cast<int>(std::max<std::int64_t>(1, devices / per_node));
  cluster.nodes = scenario.machine.cluster.nodes = nodes;
  if (nodes > 1 && cluster.network_bytes_per_s <= 0) {
    cluster.network_bytes_per_s = scenario.machine.cluster.network_bytes_per_s =
        kUsualNetworkBytesPerS;
  }
  Plan& plan = scenario.plan;
  const std::int64_t others = std::int64_t{1} * plan.cp * plan.tp * plan.pp;
  if (devices % others != 0) return "cp x tp x pp does not divide the devices";
  plan.dp = static_cast<int>(devices / others);
  return {};
}

std::string Set(SweptField field, std::int64_t value, Scenario& scenario) {
  switch (field) {
    case SweptField::kSequence:
      scenario.plan.sequence = value;
      return {};
    case SweptField::kDevices:
      return SetDevices(value, scenario);
    case SweptField::kGlobalBatch:
      scenario.plan.global_batch = value;
      return {};
    case SweptField::kMicroBatch:
      scenario.plan.micro_batch = value;
      break;
  }
  return {};
}

}  // namespace

std::string_view Name(SweptField field) {
  constexpr std::array<std::string_view, kSweptFieldCount> kNames{"sequence", "GPUs",
                                                                  "global batch", "micro batch"};
  return kNames[static_cast<std::size_t>(field)];
}

double SweepPoint::DeviceHoursPerBillion() const {
  if (!stats || !(stats->tokens_per_s > 0)) return 0.0;
  return 1e9 / stats->tokens_per_s * devices / 3600.0;
}

Result<PlanSweep> SweepOf(const Scenario& scenario, SweptField field, StepMaker& maker,
                          const std::function<bool()>& cancelled) {
  PlanSweep sweep{.field = field};
  const std::int64_t own = ValueOf(scenario, field);
  for (int i = -kDoublings; i <= kDoublings; ++i) {
    if (cancelled()) return Fail(ErrorCode::kAborted, "another sweep was asked for");
    const std::int64_t divisor = std::int64_t{1} << (i < 0 ? -i : 0);
    if (own < 1 || own % divisor != 0) continue;
    SweepPoint point{.value = i < 0 ? own / divisor : own << i, .own = i == 0};
    Scenario changed = scenario;
    point.problem = i == 0 ? std::string() : Set(field, point.value, changed);
    point.devices =
        field == SweptField::kDevices ? static_cast<int>(point.value) : changed.cluster.Devices();
    if (point.problem.empty()) {
      auto step = maker.Make({changed, -1});
      if (step.has_value()) {
        point.stats = step->stats;
      } else {
        point.problem = step.error().message;
      }
    }
    sweep.points.push_back(std::move(point));
  }
  return sweep;
}

}  // namespace foretrain::ui
