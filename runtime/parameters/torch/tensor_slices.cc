#include "runtime/parameters/torch/tensor_slices.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

namespace foretrain {
namespace {

constexpr std::string_view kLayers = "decoder.layers.", kExperts = "experts.experts.",
                           kAhead = "mtp.layers.", kInner = "transformer_layer.";
constexpr std::int64_t kMaxSlices = std::int64_t{1} << 20;  // of all tensors

// Parts of names and their replacements: norms in a linear (Transformer Engine) have the name of
// the module that they have without it.
constexpr std::pair<std::string_view, std::string_view> kRenamed[] = {
    {"self_attention.linear_qkv.layer_norm_", "input_layernorm."},
    {"self_attention.linear_q_down_proj.layer_norm_", "input_layernorm."},
    {"self_attention.linear_kv_down_proj.layer_norm_", "input_layernorm."},
    {"self_attention.linear_q_up_proj.layer_norm_", "self_attention.q_layernorm."},
    {"self_attention.linear_kv_up_proj.layer_norm_", "self_attention.kv_layernorm."},
    {"mlp.linear_fc1.layer_norm_", "pre_mlp_layernorm."},
};

// Names of wrappers, left out where a name goes on as a whole model's does.
constexpr std::pair<std::string_view, std::string_view> kWrapped[] = {
    {"module.", ""}, {"model.", "model."}, {"model.", "transformer."}, {"model.", "lm_head."}};

std::string WithoutWrappers(std::string_view name) {
  for (const auto& [wrapper, model] : kWrapped) {
    if (!name.starts_with(wrapper)) continue;
    const std::string_view rest = name.substr(wrapper.size());
    if (rest.starts_with(model)) return std::string(rest);
  }
  return std::string(name);
}

bool HasNumberAt(std::string_view name, std::size_t at) {
  return at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0;
}

// The layers of the decoder, by the stacked tensors or by the names of the others.
std::int64_t LayersOf(const ChunkedTensors& tensors) {
  std::int64_t layers = 0;
  for (const auto& [stored, tensor] : tensors) {
    const std::string name = WithoutWrappers(stored);
    if (!name.starts_with(kLayers)) continue;
    std::int64_t number = 0;
    const char* const begin = name.data() + kLayers.size();
    if (std::from_chars(begin, name.data() + name.size(), number).ec == std::errc()) {
      layers = std::max(layers, number + 1);
    } else if (!tensor.shape.empty()) {
      layers = std::max(layers, tensor.shape[0]);
    }
  }
  return layers;
}

// mtp.layers.N.transformer_layer.W and mtp.layers.N.W are of layer `layers` + N.
std::string AsLayer(std::string_view name, std::int64_t layers) {
  std::int64_t number = 0;
  const char* const end = name.data() + name.size();
  const char* const begin = name.data() + std::min(kAhead.size(), name.size());
  const auto [after, error] = std::from_chars(begin, end, number);
  if (!name.starts_with(kAhead) || error != std::errc() || after == end || *after != '.' ||
      number < 0 || number > kMaxSlices) {
    return std::string(name);
  }
  std::string_view rest(after + 1, static_cast<std::size_t>(end - after - 1));
  if (rest.starts_with(kInner)) rest.remove_prefix(kInner.size());
  return std::string(kLayers) + std::to_string(layers + number) + "." + std::string(rest);
}

struct Named {
  std::string name;
  TensorSlice slice;
};

// Cuts each tensor along its next dimension if the name goes on after `mark` without a number, and
// into no more parts than are `left`.
std::vector<Named> Cut(std::vector<Named> tensors, const std::vector<std::int64_t>& shape,
                       std::string_view mark, std::int64_t& left) {
  std::vector<Named> cut;
  for (Named& whole : tensors) {
    const std::size_t at = whole.name.find(mark);
    const std::size_t number = at + mark.size(), dimension = whole.slice.leading.size();
    if (at == std::string::npos || HasNumberAt(whole.name, number) || dimension >= shape.size() ||
        shape[dimension] > left) {
      cut.push_back(std::move(whole));
      continue;
    }
    left -= shape[dimension];
    for (std::int64_t i = 0; i < shape[dimension]; ++i) {
      Named part = whole;
      part.name.insert(number, std::to_string(i) + ".");
      part.slice.leading.push_back(i);
      cut.push_back(std::move(part));
    }
  }
  return cut;
}

}  // namespace

std::map<std::string, TensorSlice, std::less<>> SlicesOf(const ChunkedTensors& tensors) {
  const std::int64_t layers = LayersOf(tensors);
  std::map<std::string, TensorSlice, std::less<>> slices;
  std::int64_t left = kMaxSlices;
  for (const auto& [stored, tensor] : tensors) {
    std::string name = AsLayer(WithoutWrappers(stored), layers);
    for (const auto& [part, own] : kRenamed) {
      if (const auto at = name.find(part); at != std::string::npos) {
        name.replace(at, part.size(), own);
      }
    }
    std::vector<Named> cut{{std::move(name), {stored, {}}}};
    if (cut.front().name.starts_with(kLayers))
      cut = Cut(std::move(cut), tensor.shape, kLayers, left);
    for (Named& part : Cut(std::move(cut), tensor.shape, kExperts, left)) {
      slices[std::move(part.name)] = std::move(part.slice);
    }
  }
  return slices;
}

}  // namespace foretrain
