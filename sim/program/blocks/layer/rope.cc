// Rotary position ops, and a model's frequency scaling as parameters of the op.
#include <algorithm>
#include <cmath>

#include "sim/program/blocks/layer/layer_ops.h"

namespace foretrain {
namespace {

// Index, as a real number, of the pair among `turned` rotary elements that makes `times` full turns
// in `original` positions (Peng et al. 2023, s. 3.2).
double PairThatTurns(const ModelSpec& model, double turned, double times) {
  constexpr double kTurn = 2 * 3.14159265358979323846;
  const auto original = static_cast<double>(model.rope_original);
  return turned * std::log(original / (times * kTurn)) / (2 * std::log(model.rope_theta));
}

// Llama 3's scaling with equal bounds is a step; kernels need a ramp, which may be this narrow.
constexpr float kStep = 1.00001F;

// YaRN interpolates low frequencies and keeps high ones; between the pairs `low` and `high` it
// ramps linearly.
RopeStretch Yarn(const ModelSpec& model, RopeStretch stretch) {
  const auto turned =
      static_cast<double>(model.IsLatent() ? model.rope_head_dim : model.RotaryDim());
  double low = PairThatTurns(model, turned, model.rope_high);
  double high = PairThatTurns(model, turned, model.rope_low);
  if (model.rope_whole_pairs) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, turned - 1);
  constexpr double kMin = 1e-3;  // width of an empty ramp, as in the paper's code
  stretch.low = static_cast<float>(low);
  stretch.high = static_cast<float>(high > low ? high : low + kMin);
  return stretch;
}

}  // namespace

RopeStretch StretchOf(const ModelSpec& model) {
  RopeStretch stretch;
  stretch.factor = static_cast<float>(model.rope_factor);
  stretch.magnitude = static_cast<float>(model.rope_magnitude);
  stretch.original = static_cast<float>(model.rope_original);
  stretch.low = static_cast<float>(model.rope_low);
  stretch.high = static_cast<float>(model.rope_high);
  switch (model.rope_scaling) {
    case RopeScaling::kLinear:
      stretch.kind = RopeStretchKind::kLinear;
      return stretch;
    case RopeScaling::kLlama3:
      stretch.kind = RopeStretchKind::kLlama3;
      stretch.high = std::max(stretch.high, stretch.low * kStep);
      return stretch;
    case RopeScaling::kYarn:
      stretch.kind = RopeStretchKind::kYarn;
      return Yarn(model, stretch);
    default:  // other kinds are forecast without scaling (WhyNotExecuted)
      return {};
  }
}

// Local layers may have a base of their own, without scaling (Gemma 3). The backward rotates by the
// negative angle. Layers without rotary positions may multiply queries by a factor that grows with
// the position (Llama 4).
void Layer::Rope(const char* name, std::int16_t tensor, bool inverse) {
  const bool grows = !context.rotates && context.model.query_temperature > 0;
  if (!context.rotates && !grows) return;
  const std::int16_t documents = DocumentStarts();
  Op& op = b.Add(OpKind::kRope, name, {InOut(tensor)});
  b.AlsoReads(documents);
  op.inverse = inverse;
  const ModelSpec& model = context.model;
  op.shape = AttentionShape();
  op.shape.window = 0;
  if (grows) {
    op.Set(Attribute::kTheta, model.rope_theta);
    op.stretch.kind = RopeStretchKind::kQueryGrowth;
    op.stretch.factor = static_cast<float>(model.query_temperature);
    op.stretch.original = static_cast<float>(model.query_temperature_floor);
    return;
  }
  const bool local = context.local && model.local_rope_theta > 0;
  op.Set(Attribute::kTheta, local ? model.local_rope_theta : model.rope_theta);
  if (!local) op.stretch = StretchOf(model);
  if (model.RotaryDim() < model.head_dim) {
    op.shape.rotary = static_cast<std::int32_t>(model.rotary_dim);
  }
}

}  // namespace foretrain
