#include "sim/infer/infer_plan.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/text.h"
#include "sim/infer/degrees.h"
#include "sim/infer/order.h"
#include "sim/infer/sharding_stage.h"
#include "sim/infer/traced_step.h"

namespace foretrain {
namespace {

InferredField FieldOf(const char* name, const InferredDegree& degree) {
  return {name, degree.value ? std::to_string(*degree.value) : "", degree.evidence};
}

InferredField FieldOf(const char* name, const InferredFact& fact) {
  return {name, fact.value, fact.evidence};
}

int IntegerOf(std::string_view text) {
  return static_cast<int>(ParseInt("value", text, 0, 1 << 30).value_or(0));
}

}  // namespace

std::string_view InferredPlan::Value(std::string_view name) const {
  for (const InferredField& field : fields) {
    if (field.name == name) return field.value;
  }
  return "";
}

// A step of m micro-batches of one sample; the samples of a micro-batch are not in a trace.
std::string InferredPlan::Options() const {
  std::string options;
  const auto add = [&](std::string_view option, std::string_view value) {
    if (value.empty()) return;
    options += fmt::format("{}--{} {}", options.empty() ? "" : " ", option, value);
  };
  for (const char* degree : {"dp", "tp", "pp", "cp", "ep"}) {
    if (Value(degree) != "1") add(degree, Value(degree));
  }
  if (Value("zero_stage") != "0") add("zero", Value("zero_stage"));
  add("schedule", Value("schedule"));
  if (Value("vpp") != "1") add("vpp", Value("vpp"));
  if (Value("recompute") != "none") add("recompute", Value("recompute"));
  const std::int64_t samples =
      std::int64_t{IntegerOf(Value("dp"))} * IntegerOf(Value("micro_batches"));
  if (samples > 0) add("global-batch", std::to_string(samples));
  return options;
}

InferredPlan InferPlan(const Timeline& timeline, const TracedCommunication& communication) {
  const TracedStep step = StepToRead(timeline, communication);
  const InferredDegrees degrees = DegreesOf(step);
  const InferredOrder order = OrderOf(step, degrees);
  InferredPlan plan;
  plan.fields = {FieldOf("dp", degrees.dp),
                 FieldOf("tp", degrees.tp),
                 FieldOf("pp", degrees.pp),
                 FieldOf("cp", degrees.cp),
                 FieldOf("ep", degrees.ep),
                 FieldOf("zero_stage", ZeroStageOf(step, degrees, order)),
                 FieldOf("schedule", order.schedule),
                 FieldOf("vpp", order.vpp),
                 FieldOf("micro_batches", order.micro_batches),
                 FieldOf("recompute", RecomputationOf(step))};
  return plan;
}

}  // namespace foretrain
