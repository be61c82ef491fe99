// Model features that blocks or kernels do not support yet, one row each.
#include <array>

#include "sim/config/model/model_spec.h"

namespace foretrain {
namespace {

struct Feature {
  bool (*has)(const ModelSpec&);
  std::string_view text;
};

// Layers as T5's: RMSNorm before each branch, relative positions, no biases.
bool IsLikeT5(const ModelSpec& m) {
  const bool plain_norms = m.norm == NormKind::kRmsNorm && m.pre_norms && !m.post_norms &&
                           !m.residual_after_norm && !m.embedding_norm && !m.qk_norm;
  const bool biased = m.attention_bias || m.output_bias || m.mlp_bias || m.head_bias;
  const bool plain_attention = m.causal && m.attention_window == 0 && m.attention_chunk == 0 &&
                               !m.attention_sinks && m.qkv_clip == 0;
  return m.positions == PositionKind::kRelative && m.order == LayerOrder::kSequential &&
         plain_norms && !biased && plain_attention && m.token_types == 0 && !m.head_transform &&
         m.predict_ahead == 0;
}

constexpr std::array kNotLowered = {
    Feature{[](const ModelSpec& m) { return m.HasEncoder() && !IsLikeT5(m); },
            "encoder_layers with layers unlike T5's"},
    Feature{[](const ModelSpec& m) {
              return m.positions == PositionKind::kRelative && !m.HasEncoder();
            },
            "positions relative without encoder_layers"},
    Feature{[](const ModelSpec& m) { return m.predict_ahead > 8; }, "predict_ahead above 8"},
    Feature{[](const ModelSpec& m) {
              const bool plain = m.norm == NormKind::kRmsNorm && !m.embedding_norm &&
                                 m.positions != PositionKind::kLearned && m.attention_window == 0;
              return m.predict_ahead > 0 && !plain;
            },
            "predict_ahead with LayerNorm, learned positions, embedding_norm or a window"},
};

// Features that change no sizes and hardly any work: they can be forecast but not run.
constexpr std::array kNotExecuted = {
    Feature{[](const ModelSpec& m) {
              const bool plain = m.rope_scaling == RopeScaling::kNone ||
                                 (m.rope_scaling == RopeScaling::kLinear && m.rope_factor != 1);
              const bool bounded =
                  m.rope_scaling == RopeScaling::kYarn || m.rope_scaling == RopeScaling::kLlama3;
              return !plain && !(bounded && m.rope_original > 0);
            },
            "rope_scaling"},
    Feature{[](const ModelSpec& m) { return m.qkv_clip > 0; }, "qkv_clip"},
    Feature{
        [](const ModelSpec& m) { return m.experts > 0 && m.router == RouterKind::kSparseMixer; },
        "router sparse-mixer"},
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
