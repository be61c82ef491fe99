// Fits all kinds of kernels of a device by one method: terms of a model, then a field of what is
// left. One function a kind.
#include "sim/validate/kernels/fit_kernels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "sim/config/rules/refuse.h"
#include "sim/cost/measured/kernel_forecast.h"
#include "sim/cost/measured/kernel_terms.h"
#include "sim/validate/kernels/fit_terms.h"

namespace foretrain {
namespace {

constexpr std::size_t kProductAnchors = 200, kAttentionAnchors = 250, kExpertsAnchors = 300;
constexpr double kProductReach = 4, kAttentionReach = 8, kExpertsReach = 6;
constexpr double kFieldNoise = 0.1;
constexpr std::size_t kMinFieldRows = 50;  // fewer rows give no field
// A collective has few rows, each the median of many calls, so all are anchors and little is noise.
constexpr double kCollectiveReach = 8, kCollectiveNoise = 0.02;
constexpr std::size_t kMinCollectiveRows = 8;
constexpr std::size_t kExchangeAnchors = 150;
constexpr double kExchangeReach = 8;
// First guesses of the rate relative to the dense 16-bit peak, and of the cost of a call with a
// cast.
constexpr double kFp8Rate = 1.2, kNvfp4Rate = 2.0, kCastLaunch = 9e-6;

// Rows of one device, kind and format.
template <class Shape>
struct Sample {
  Shape shape;
  double log_s = 0;
};

auto Key(const ProductShape& shape) { return std::tuple(shape.m, shape.n, shape.k); }
auto Key(const AttentionShape& shape) {
  return std::tuple(shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_dim);
}
auto Key(const ExpertsShape& shape) {
  return std::tuple(shape.tokens, shape.hidden, shape.ffn_hidden, shape.topk, shape.experts,
                    shape.tp, shape.ep);
}

auto Key(const CollectiveShape& shape) { return std::tuple(shape.members, shape.bytes); }
// The rows of one shape differ in their multiprocessors.
auto Key(const ExchangeShape& shape) {
  return std::tuple(shape.nodes, shape.hidden, shape.tokens, shape.topk, shape.experts);
}

// `value` with `digits` significant digits.
double Rounded(double value, int digits) {
  if (value == 0) return 0;
  const double unit = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::round(value * unit) / unit;
}
double RoundedTo(double value, double step) { return std::round(value / step) * step; }

FitError ErrorOf(std::vector<double> errors) {
  FitError out;
  out.rows = static_cast<int>(errors.size());
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  out.median = Rounded(errors[errors.size() / 2], 3);
  out.p90 = Rounded(errors[errors.size() * 9 / 10], 3);
  return out;
}

// Terms that minimize the error of `log_model(terms, i)` against log_s[i].
template <class Terms, class LogModel>
Terms FittedTerms(const Terms& start, const std::vector<double>& log_s, const LogModel& log_model) {
  Terms out = start;
  std::vector<TermGuess> guesses;
  for (const NamedTerm& term : TermsOf(out)) {
    guesses.push_back({.value = *term.value, .known_to = term.known_to, .max = term.max});
  }
  const TermModel model = [&](std::span<const double> values, std::span<double> out_s) {
    Terms terms = start;
    const std::vector<NamedTerm> named = TermsOf(terms);
    for (std::size_t i = 0; i < values.size(); ++i) *named[i].value = values[i];
    for (std::size_t i = 0; i < out_s.size(); ++i) out_s[i] = log_model(terms, i);
  };
  const std::vector<double> fitted = FitTerms(guesses, model, log_s);
  const std::vector<NamedTerm> named = TermsOf(out);
  for (std::size_t i = 0; i < fitted.size(); ++i) *named[i].value = Rounded(fitted[i], 4);
  return out;
}

// The spread-out shapes among `samples`.
template <class Shape>
std::vector<Shape> Anchors(const std::vector<Sample<Shape>>& samples, std::size_t count) {
  std::vector<FieldPoint> points;
  for (const Sample<Shape>& sample : samples) points.push_back(PointOf(sample.shape));
  std::vector<Shape> out;
  for (const std::size_t at : SpreadPoints(points, count)) out.push_back(samples[at].shape);
  return out;
}

// Shapes with the same key are one group and follow each other. Sorting also makes the result
// independent of the order of rows and tables.
template <class Shape>
std::vector<int> SortIntoGroups(std::vector<Sample<Shape>>& samples) {
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
    return std::pair(Key(a.shape), a.log_s) < std::pair(Key(b.shape), b.log_s);
  });
  std::vector<int> groups;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool same = i > 0 && Key(samples[i].shape) == Key(samples[i - 1].shape);
    groups.push_back(i == 0 ? 0 : groups.back() + (same ? 0 : 1));
  }
  return groups;
}

template <class Terms, class Shape, class LogModel>
MeasuredKernel<Terms> FitKernel(std::vector<Sample<Shape>> samples, const Terms& start,
                                const std::vector<Shape>& anchors, double reach, double noise,
                                const LogModel& log_model) {
  const std::vector<int> groups = SortIntoGroups(samples);
  std::vector<double> log_s;
  for (const Sample<Shape>& sample : samples) log_s.push_back(sample.log_s);
  MeasuredKernel<Terms> out;
  out.terms = FittedTerms(start, log_s, [&](const Terms& terms, std::size_t i) {
    return log_model(terms, samples[i].shape);
  });
  std::vector<FieldPoint> points, positions;
  for (const Shape& anchor : anchors) positions.push_back(PointOf(anchor));
  std::vector<double> values;
  for (const Sample<Shape>& sample : samples) {
    points.push_back(PointOf(sample.shape));
    values.push_back(sample.log_s - log_model(out.terms, sample.shape));
  }
  FieldFit fit = FitField(points, values, groups, std::move(positions), reach, noise);
  out.field = std::move(fit.field);
  out.field.offset = RoundedTo(out.field.offset, 1e-4);
  for (double& weight : out.field.weights) weight = RoundedTo(weight, 1e-4);
  out.error = ErrorOf(std::move(fit.left_out));
  return out;
}

// All measured rows of one device.
struct DeviceRows {
  std::array<std::vector<Sample<ProductShape>>, kProductFormatCount> products;
  // Shares of the best library by format and knot.
  std::array<std::array<std::vector<double>, BestShare{}.size()>, kProductFormatCount> best;
  std::vector<Sample<AttentionShape>> attention;
  std::array<std::vector<Sample<ExpertsShape>>, kProductFormatCount> experts;
  std::vector<Sample<TrainingProduct>> training_products;
  std::vector<Sample<AttentionShape>> training_forward, training_backward;
  std::array<std::vector<Sample<CollectiveShape>>, kCollectiveCount> collectives;
  std::array<std::vector<Sample<ExchangeShape>>, kExchangePartCount> exchanges;
};

void Add(const TimingRow& row, DeviceRows& out) {
  const double log_s = std::log(row.measured_s);
  if (const auto* product = std::get_if<ProductRow>(&row.kernel)) {
    const auto format = static_cast<std::size_t>(product->format);
    out.products[format].push_back({product->shape, log_s});
    if (product->best_share > 0) {
      out.best[format][NearestKnot(product->shape)].push_back(product->best_share);
    }
  } else if (const auto* attention = std::get_if<AttentionShape>(&row.kernel)) {
    out.attention.push_back({*attention, log_s});
  } else if (const auto* experts = std::get_if<ExpertsRow>(&row.kernel)) {
    out.experts[static_cast<std::size_t>(experts->format)].push_back({experts->shape, log_s});
  } else if (const auto* training = std::get_if<TrainingProduct>(&row.kernel)) {
    out.training_products.push_back({*training, log_s});
  } else if (const auto* causal = std::get_if<TrainingAttentionRow>(&row.kernel)) {
    (causal->forward ? out.training_forward : out.training_backward)
        .push_back({causal->shape, log_s});
  } else if (const auto* collective = std::get_if<CollectiveRow>(&row.kernel)) {
    out.collectives[*CollectiveAt(collective->kind)].push_back({collective->shape, log_s});
  } else if (const auto* exchange = std::get_if<ExchangeRow>(&row.kernel)) {
    if (exchange->combine_s <= 0) return;  // a profile has both parts or none
    out.exchanges[0].push_back({exchange->ShapeOf(ExchangePart::kDispatch), log_s});
    out.exchanges[1].push_back(
        {exchange->ShapeOf(ExchangePart::kCombine), std::log(exchange->combine_s)});
  }
}

GemmTerms FirstTerms(ProductFormat format) {
  GemmTerms out;
  if (format == ProductFormat::kBf16) return out;
  out.rate_share = format == ProductFormat::kNvfp4 ? kNvfp4Rate : kFp8Rate;
  out.launch_s = kCastLaunch;
  return out;
}

template <class Shape>
std::vector<Sample<Shape>> Joined(
    const std::array<std::vector<Sample<Shape>>, kProductFormatCount>& formats) {
  std::vector<Sample<Shape>> out;
  for (const auto& samples : formats) out.insert(out.end(), samples.begin(), samples.end());
  (void)SortIntoGroups(out);
  return out;
}

void FitProducts(const DeviceRows& rows, KernelProfile& profile) {
  profile.products.anchors = Anchors(Joined(rows.products), kProductAnchors);
  for (std::size_t i = 0; i < rows.products.size(); ++i) {
    if (rows.products[i].size() < kMinFieldRows) continue;
    const auto format = static_cast<ProductFormat>(i);
    profile.products.formats[i] =
        FitKernel(rows.products[i], FirstTerms(format), profile.products.anchors, kProductReach,
                  kFieldNoise, [&](const GemmTerms& terms, const ProductShape& shape) {
                    return std::log(GemmModelSeconds(terms, profile.machine, format, shape) +
                                    CastSeconds(terms, profile.machine, format, shape));
                  });
  }
}

// Medians at the knots; a knot without rows takes the nearest below, else above.
void FitBestProducts(const DeviceRows& rows, KernelProfile& profile) {
  for (std::size_t i = 0; i < rows.best.size(); ++i) {
    BestShare best{};
    for (std::size_t knot = 0; knot < best.size(); ++knot) {
      std::vector<double> shares = rows.best[i][knot];
      if (shares.empty()) continue;
      std::nth_element(shares.begin(), shares.begin() + shares.size() / 2, shares.end());
      best[knot] = RoundedTo(shares[shares.size() / 2], 1e-3);
    }
    for (std::size_t knot = 1; knot < best.size(); ++knot) {
      if (best[knot] == 0) best[knot] = best[knot - 1];
    }
    for (std::size_t knot = best.size() - 1; knot-- > 0;) {
      if (best[knot] == 0) best[knot] = best[knot + 1];
    }
    if (best.front() > 0) profile.best_products[i] = best;
  }
}

void FitAttention(const DeviceRows& rows, KernelProfile& profile) {
  if (rows.attention.size() < kMinFieldRows) return;
  std::vector<Sample<AttentionShape>> samples = rows.attention;
  (void)SortIntoGroups(samples);
  profile.attention_anchors = Anchors(samples, kAttentionAnchors);
  profile.attention_forward =
      FitKernel(samples, AttentionTerms{}, profile.attention_anchors, kAttentionReach, kFieldNoise,
                [&](const AttentionTerms& terms, const AttentionShape& shape) {
                  return std::log(AttentionForwardModelSeconds(terms, profile.machine, shape));
                });
}

void FitExperts(const DeviceRows& rows, KernelProfile& profile) {
  profile.experts.anchors = Anchors(Joined(rows.experts), kExpertsAnchors);
  for (std::size_t i = 0; i < rows.experts.size(); ++i) {
    if (rows.experts[i].size() < kMinFieldRows) continue;
    const auto format = static_cast<ProductFormat>(i);
    profile.experts.formats[i] = FitKernel(
        rows.experts[i], ExpertsTerms{}, profile.experts.anchors, kExpertsReach, kFieldNoise,
        [&](const ExpertsTerms& terms, const ExpertsShape& shape) {
          return std::log(ExpertsForwardModelSeconds(terms, profile.machine, format, shape));
        });
  }
}

void FitCollectives(const DeviceRows& rows, KernelProfile& profile) {
  if (profile.machine.link_bytes_per_s <= 0) return;
  for (std::size_t i = 0; i < rows.collectives.size(); ++i) {
    std::vector<Sample<CollectiveShape>> samples = rows.collectives[i];
    if (samples.size() < kMinCollectiveRows) continue;
    (void)SortIntoGroups(samples);
    CollectiveFit& fit = profile.collectives[i].emplace();
    fit.anchors = Anchors(samples, samples.size());
    fit.kernel =
        FitKernel(samples, CollectiveTerms{}, fit.anchors, kCollectiveReach, kCollectiveNoise,
                  [&](const CollectiveTerms& terms, const CollectiveShape& shape) {
                    return std::log(CollectiveModelSeconds(terms, profile.machine,
                                                           kMeasuredCollectives[i].kind, shape));
                  });
  }
}

void FitExchanges(const DeviceRows& rows, KernelProfile& profile) {
  if (profile.machine.link_bytes_per_s <= 0 || rows.exchanges[0].size() < kMinFieldRows) return;
  std::vector<Sample<ExchangeShape>> samples = rows.exchanges[0];
  (void)SortIntoGroups(samples);
  profile.exchange_anchors = Anchors(samples, kExchangeAnchors);
  for (std::size_t i = 0; i < rows.exchanges.size(); ++i) {
    const auto part = static_cast<ExchangePart>(i);
    profile.exchanges[i] =
        FitKernel(rows.exchanges[i], ExchangeTerms{}, profile.exchange_anchors, kExchangeReach,
                  kFieldNoise, [&](const ExchangeTerms& terms, const ExchangeShape& shape) {
                    return std::log(ExchangeModelSeconds(terms, profile.machine, part, shape));
                  });
  }
}

// Terms without a field; the error is of fits without each row in turn.
template <class Terms, class LogModel>
MeasuredKernel<Terms> FitPlain(const std::vector<double>& log_s, const LogModel& log_model) {
  MeasuredKernel<Terms> out;
  out.terms = FittedTerms(Terms{}, log_s, log_model);
  std::vector<double> errors;
  for (std::size_t left_out = 0; left_out < log_s.size(); ++left_out) {
    std::vector<double> others = log_s;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(left_out));
    const Terms terms = FittedTerms(out.terms, others, [&](const Terms& at, std::size_t i) {
      return log_model(at, i < left_out ? i : i + 1);
    });
    errors.push_back(log_s[left_out] - log_model(terms, left_out));
  }
  out.error = ErrorOf(std::move(errors));
  return out;
}

// Training's kernels relative to the hot ones, which must have been fitted before.
void FitTraining(const DeviceRows& rows, std::span<const KernelProfile> profiles,
                 KernelProfile& profile) {
  const KernelForecast hot(DeviceOf(profile), profiles);
  struct Row {
    std::optional<TrainingProduct> product;
    double hot_s = 0;
  };
  std::vector<Row> samples;
  std::vector<double> log_s;
  for (const auto& [product, log] : rows.training_products) {
    const auto hot_s = hot.ProductSeconds(ProductFormat::kBf16, product.shape, false);
    if (!hot_s.has_value()) continue;
    samples.push_back({product, *hot_s});
    log_s.push_back(log);
  }
  for (const auto& [shape, log] : rows.training_forward) {
    const auto hot_s = hot.AttentionForwardSeconds(shape);
    if (!hot_s.has_value()) continue;
    samples.push_back({std::nullopt, *hot_s});
    log_s.push_back(log);
  }
  if (log_s.empty()) return;
  profile.training = FitPlain<TrainingTerms>(log_s, [&](const TrainingTerms& terms, std::size_t i) {
    const Row& row = samples[i];
    return std::log(row.product.has_value() ? TrainingProductModelSeconds(terms, profile.machine,
                                                                          *row.product, row.hot_s)
                                            : TrainingAttentionModelSeconds(terms, row.hot_s));
  });
}

void FitBackward(const DeviceRows& rows, KernelProfile& profile) {
  if (rows.training_backward.empty()) return;
  std::vector<double> log_s;
  for (const auto& sample : rows.training_backward) log_s.push_back(sample.log_s);
  profile.attention_backward =
      FitPlain<AttentionTerms>(log_s, [&](const AttentionTerms& terms, std::size_t i) {
        return std::log(
            AttentionBackwardModelSeconds(terms, profile.machine, rows.training_backward[i].shape));
      });
}

Result<KernelProfile> EmptyProfile(const std::string& name, const Catalogue& catalogue,
                                   const std::vector<Architecture>& architectures) {
  FT_ASSIGN(const GpuEntry gpu, FindGpu(catalogue, name));
  const std::optional<KernelDevice> device =
      KernelDeviceOf(gpu.device, gpu.measured_bf16_flop_per_s, architectures);
  if (!device.has_value()) {
    return Refuse(
        "device {}: sim/config/catalogue/hardware.csv lacks its bf16_tflops, mem_gb_per_s or "
        "sm_count; add them",
        name);
  }
  KernelProfile out;
  out.device = device->name;
  out.architecture = device->architecture;
  out.machine = device->machine;
  out.memory_bytes = device->memory_bytes;
  out.best_flop_per_s = device->best_flop_per_s;
  return out;
}

}  // namespace

Result<std::vector<KernelProfile>> FitKernels(std::span<const TimingTable> tables,
                                              const Catalogue& catalogue,
                                              const std::vector<Architecture>& architectures) {
  std::map<std::string, DeviceRows> devices;
  for (const TimingTable& table : tables) {
    for (const TimingRow& row : table.rows) {
      const bool fitted = !std::holds_alternative<std::monostate>(row.kernel);
      if (fitted && row.measured_s > 0) Add(row, devices[row.device]);
    }
  }
  if (devices.empty()) {
    return Refuse(
        "the tables have no measured row of a kernel with a model: give gemm, attention, "
        "experts, share, collective or exchange tables");
  }
  std::vector<KernelProfile> out;
  std::vector<const DeviceRows*> rows_of;
  for (const auto& [name, rows] : devices) {
    FT_ASSIGN(KernelProfile profile, EmptyProfile(name, catalogue, architectures));
    FitProducts(rows, profile);
    FitBestProducts(rows, profile);
    FitAttention(rows, profile);
    FitExperts(rows, profile);
    FitCollectives(rows, profile);
    FitExchanges(rows, profile);
    out.push_back(std::move(profile));
    rows_of.push_back(&rows);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    FitTraining(*rows_of[i], out, out[i]);
    FitBackward(*rows_of[i], out[i]);
  }
  return out;
}

}  // namespace foretrain
