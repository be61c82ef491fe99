#include "traces/import/kineto/op_work.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/text.h"

namespace foretrain::trace_import {
namespace {

constexpr std::size_t kMaxInputs = 64;
constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;
constexpr double kMaxWork = 1e24;  // of one op: more is no shape that a device could hold

using Shape = std::vector<std::int64_t>;

struct Tensor {
  Shape shape{};
  ElementType type{};

  double Elements() const {
    double product = 1;
    for (const std::int64_t extent : shape) product *= static_cast<double>(extent);
    return product;
  }
};

// A product a [.., m, k] x b [.., k, n]; the index of a among the inputs, b follows it.
struct Product {
  std::string_view name;
  std::size_t a;
};
constexpr std::array<Product, 5> kProducts{{
    {"aten::mm", 0},
    {"aten::addmm", 1},
    {"aten::bmm", 0},
    {"aten::baddbmm", 1},
    {"aten::_scaled_mm", 0},
}};

// Attention with q, k and v [batch, heads, sequence, head_dim] from index q on. Two products run
// forward and five backward, which computes the scores anew.
struct Attention {
  std::string_view name;
  std::size_t q;
  std::size_t causal;  // index of the input that says so
  double products;
};
constexpr std::array<Attention, 8> kAttentions{{
    {"aten::_scaled_dot_product_flash_attention", 0, 4, 2},
    {"aten::_scaled_dot_product_flash_attention_backward", 1, 11, 5},
    {"aten::_scaled_dot_product_efficient_attention", 0, 6, 2},
    {"aten::_scaled_dot_product_efficient_attention_backward", 1, 11, 5},
    {"aten::_scaled_dot_product_cudnn_attention", 0, 6, 2},
    {"aten::_scaled_dot_product_cudnn_attention_backward", 1, 14, 5},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", 0, 4, 2},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", 1, 7, 5},
}};

// "[8,4],[],2" has the inner lists {8, 4} and {} and a scalar, which counts as an empty list.
std::vector<Shape> ShapesOf(std::string_view text) {
  std::vector<Shape> shapes;
  while (!text.empty() && shapes.size() < kMaxInputs) {
    Shape shape;
    std::size_t end = text.find(',');
    if (text.starts_with('[')) {
      const std::size_t close = std::min(text.find(']'), text.size());
      for (const std::string_view part : Split(text.substr(1, close - 1), ',')) {
        const auto extent = ParseInt("extent", part, 0, kMaxExtent);
        if (extent.has_value()) shape.push_back(*extent);
      }
      end = text.find(',', close);
    }
    shapes.push_back(std::move(shape));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return shapes;
}

// Inputs with a type that has a size; others, such as scalars, have neither shape nor type.
std::vector<Tensor> InputsOf(const JsonEvent& event) {
  const std::vector<Shape> shapes = ShapesOf(event.Text("Input Dims"));
  const std::vector<std::string_view> types = Split(event.Text("Input type"), ',');
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < std::min(shapes.size(), types.size()); ++i) {
    const bool is_tensor = !shapes[i].empty();
    inputs.push_back(is_tensor ? Tensor{shapes[i], ElementOf(types[i])} : Tensor{});
  }
  return inputs;
}

// m, n, k and the number of products; `nullopt` if the shapes do not fit each other.
struct Extents {
  double m, n, k, count;
};
std::optional<Extents> ExtentsOf(const Tensor& a, const Tensor& b) {
  const std::size_t axes = a.shape.size();
  if (axes < 2 || axes > 3 || b.shape.size() != axes) return std::nullopt;
  if (a.shape[axes - 1] != b.shape[axes - 2]) return std::nullopt;
  if (axes == 3 && a.shape[0] != b.shape[0]) return std::nullopt;
  const auto of = [](std::int64_t extent) { return static_cast<double>(extent); };
  return Extents{of(a.shape[axes - 2]), of(b.shape[axes - 1]), of(a.shape[axes - 1]),
                 axes == 3 ? of(a.shape[0]) : 1.0};
}

double FlopsOf(const Attention& attention, const std::vector<Tensor>& inputs,
               const JsonEvent& event) {
  if (inputs.size() < attention.q + 3) return 0;
  const Shape& q = inputs[attention.q].shape;
  const Shape& k = inputs[attention.q + 1].shape;
  const std::vector<std::string_view> values = Split(event.Text("Concrete Inputs"), ',');
  if (q.size() != 4 || k.size() != 4 || values.size() <= attention.causal) return 0;
  const std::string_view causal = values[attention.causal];
  if (causal != "True" && causal != "False") return 0;
  const double scores = inputs[attention.q].Elements() * static_cast<double>(k[2]);
  return 2 * attention.products * scores * (causal == "True" ? 0.5 : 1.0);
}

}  // namespace

ElementType ElementOf(std::string_view type) {
  struct Named {
    std::string_view name;
    ElementType type;
  };
  static constexpr std::array<Named, 26> kTypes{{
      {"BFloat16", {2, "bf16"}},
      {"bfloat16", {2, "bf16"}},
      {"Half", {2, "fp16"}},
      {"float16", {2, "fp16"}},
      {"Float", {4, "fp32"}},
      {"float", {4, "fp32"}},
      {"float32", {4, "fp32"}},
      {"Double", {8, "fp64"}},
      {"double", {8, "fp64"}},
      {"Float8_e4m3fn", {1, "fp8"}},
      {"Float8_e5m2", {1, "fp8"}},
      {"Long", {8, ""}},
      {"long int", {8, ""}},
      {"long", {8, ""}},
      {"Int", {4, ""}},
      {"int", {4, ""}},
      {"Short", {2, ""}},
      {"short int", {2, ""}},
      {"short", {2, ""}},
      {"Byte", {1, ""}},
      {"unsigned char", {1, ""}},
      {"Char", {1, ""}},
      {"signed char", {1, ""}},
      {"char", {1, ""}},
      {"Bool", {1, ""}},
      {"bool", {1, ""}},
  }};
  constexpr std::string_view kSpace = "c10::";
  if (type.starts_with(kSpace)) type.remove_prefix(kSpace.size());
  const auto* const found = std::find_if(kTypes.begin(), kTypes.end(),
                                         [&](const Named& known) { return known.name == type; });
  return found == kTypes.end() ? ElementType{} : found->type;
}

// A result has the format of a; that of _scaled_mm is not known.
OpWork WorkOf(const JsonEvent& event) {
  if (event.Find("Input Dims") == nullptr || event.Find("Input type") == nullptr) return {};
  const std::vector<Tensor> inputs = InputsOf(event);
  OpWork work;
  for (const Tensor& input : inputs) {
    if (input.shape.empty()) continue;
    if (input.type.bytes == 0) return {};
    work.bytes += input.Elements() * static_cast<double>(input.type.bytes);
    if (work.format.empty()) work.format = input.type.format;
  }
  for (const Product& product : kProducts) {
    if (product.name != event.name || inputs.size() < product.a + 2) continue;
    const Tensor& a = inputs[product.a];
    const auto extents = ExtentsOf(a, inputs[product.a + 1]);
    if (!extents) continue;
    const double results = extents->count * extents->m * extents->n;
    work.flops = 2 * results * extents->k;
    work.format = a.type.format;
    if (event.name != "aten::_scaled_mm") work.bytes += results * static_cast<double>(a.type.bytes);
  }
  for (const Attention& attention : kAttentions) {
    if (attention.name == event.name) work.flops = FlopsOf(attention, inputs, event);
  }
  return work.flops <= kMaxWork && work.bytes <= kMaxWork ? work : OpWork{};
}

}  // namespace foretrain::trace_import
