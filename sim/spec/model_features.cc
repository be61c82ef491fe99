// Parts of a ModelSpec that lie ahead of blocks and kernels: one row each.
#include <array>

#include "sim/spec/model_spec.h"
#include "sim/spec/refuse.h"

namespace foretrain {
namespace {

struct Feature {
  bool (*has)(const ModelSpec&);
  std::string_view text;
};

constexpr std::array kNotLowered = {
    Feature{[](const ModelSpec& m) { return m.attention == AttentionKind::kLatent; },
            "attention latent"},
    Feature{[](const ModelSpec& m) { return m.attention_sinks; }, "attention_sinks true"},
    Feature{[](const ModelSpec& m) { return m.router_bias; }, "router_bias true"},
    Feature{[](const ModelSpec& m) { return m.expert_bias; }, "expert_bias true"},
    Feature{[](const ModelSpec& m) { return m.shared_gate; }, "shared_gate true"},
    Feature{[](const ModelSpec& m) { return m.predict_ahead > 0; }, "predict_ahead"},
};

// What changes neither a size nor, by more than a few operations a number, the work.
constexpr std::array kNotExecuted = {
    Feature{[](const ModelSpec& m) { return m.mlp == MlpKind::kClampedSwiglu; },
            "mlp clamped-swiglu"},
    Feature{[](const ModelSpec& m) { return m.positions == PositionKind::kAlibi; },
            "positions alibi"},
    Feature{[](const ModelSpec& m) { return m.rope_scaling != RopeScaling::kNone; },
            "rope_scaling"},
    Feature{[](const ModelSpec& m) { return m.attention_softcap > 0; }, "attention_softcap"},
    Feature{[](const ModelSpec& m) { return m.router == RouterKind::kSigmoid; }, "router sigmoid"},
    Feature{[](const ModelSpec& m) { return m.expert_scale != 1; }, "expert_scale"},
};

template <class Features>
std::string First(const Features& features, const ModelSpec& model) {
  for (const Feature& feature : features) {
    if (feature.has(model)) return std::string(feature.text);
  }
  return {};
}

}  // namespace

std::string WhyNotLowered(const ModelSpec& model) { return First(kNotLowered, model); }

std::string WhyNotExecuted(const ModelSpec& model) { return First(kNotExecuted, model); }

}  // namespace foretrain
