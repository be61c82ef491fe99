#include "sim/config/launch/expert_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

namespace foretrain {
namespace {

constexpr std::size_t kMaxLayers = 1 << 16;  // of a list, also within an expression
constexpr int kMaxDepth = 32;                // of parentheses

using Bits = std::vector<bool>;

// Recursive descent: sum = product ("+" product)*, product = operand ("*" operand)* where all but
// one operand are numbers, operand = number | "[" bits "]" | "(" sum ")".
class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  bool Parse(Bits& out) { return Sum(out, 0) && Next() == '\0'; }

 private:
  char Next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char wanted) {
    if (Next() != wanted) return false;
    ++at_;
    return true;
  }
  bool Number(std::size_t& out) {
    Next();
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), out);
    if (error != std::errc()) return false;
    at_ += static_cast<std::size_t>(end - begin);
    return out <= kMaxLayers;
  }
  bool Sum(Bits& out, int depth) {
    if (depth > kMaxDepth) return false;
    do {
      Bits one;
      if (!Product(one, depth)) return false;
      out.insert(out.end(), one.begin(), one.end());
      if (out.size() > kMaxLayers) return false;
    } while (Take('+'));
    return true;
  }
  bool Product(Bits& out, int depth) {
    std::size_t times = 1;
    bool has_list = false;
    do {
      std::size_t number = 0;
      if (Next() != '[' && Next() != '(') {
        if (!Number(number)) return false;
        times *= number;
      } else if (has_list || !List(out, depth)) {
        return false;
      } else {
        has_list = true;
      }
      if (times > kMaxLayers || times * out.size() > kMaxLayers) return false;
    } while (Take('*'));
    const Bits once = out;
    out.clear();
    for (std::size_t i = 0; i < times; ++i) out.insert(out.end(), once.begin(), once.end());
    return has_list;
  }
  bool List(Bits& out, int depth) {
    if (Take('(')) return Sum(out, depth + 1) && Take(')');
    if (!Take('[')) return false;
    while (!Take(']')) {
      std::size_t bit = 0;
      if (!Number(bit) || bit > 1) return false;
      out.push_back(bit == 1);
      if (out.size() > kMaxLayers || (Next() != ']' && !Take(','))) return false;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<ExpertLayers> ParseExpertLayers(std::string_view text, std::int64_t layers) {
  std::int64_t every = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), every);
  if (error == std::errc() && end == text.data() + text.size()) {
    if (every >= 1 && layers % every == 0) return ExpertLayers{0, every};
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("must divide the {} layers; give a list of 0 and 1", layers));
  }
  Bits bits;
  if (!PatternParser(text).Parse(bits) || std::cmp_not_equal(bits.size(), layers)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("must be a number, or a list of 0 and 1 for each of {} layers such as "
                            "([0]*1+[1]*{})",
                            layers, layers - 1));
  }
  const auto has = [&](std::int64_t layer) { return bits[static_cast<std::size_t>(layer)]; };
  const auto first = std::find(bits.begin(), bits.end(), true) - bits.begin();
  if (std::find(bits.begin() + first, bits.end(), false) == bits.end() && first < layers) {
    return ExpertLayers{first, 1};
  }
  const std::int64_t period = first + 1;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    if (has(layer) == ((layer + 1) % period == 0)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "is neither leading layers without experts nor experts in every n-th layer, as "
                "[0,1] repeated; give --model with the nearest of these");
  }
  return ExpertLayers{0, period};
}

std::string ExpertLayersText(const ModelSpec& model) {
  if (model.experts == 0 || (model.first_dense_layers == 0 && model.expert_every == 1)) return "";
  if (model.expert_every == 1) {
    return fmt::format("([0]*{}+[1]*{})", model.first_dense_layers,
                       model.layers - model.first_dense_layers);
  }
  std::string bits;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    bits += bits.empty() ? "[" : ",";
    bits += model.HasExperts(layer) ? '1' : '0';
  }
  return bits + "]";
}

}  // namespace foretrain
