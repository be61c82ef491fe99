#include "sim/validate/kernels/timing_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>

#include "base/text.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 31;
constexpr double kMsPerS = 1e3, kUsPerS = 1e6;
constexpr std::int64_t kHalfBytes = 2;
constexpr CsvLimits kLimits{.text_bytes = std::size_t{64} << 20, .rows = 1'000'000};

// Reads cells of one row and keeps the first error, so that callers check once.
class Cells {
 public:
  Cells(const CsvTable& table, const CsvRow& row) : cells_(table, row) {}

  bool Has(std::string_view column) const { return !cells_.Text(column).empty(); }
  std::string Text(std::string_view column) { return std::string(cells_.Text(column)); }
  std::int64_t Count(std::string_view column) {
    return Keep(cells_.Count(column, 1, kMaxSize), std::int64_t{1});
  }
  // A number above 0; 0 if the cell is empty.
  double Positive(std::string_view column) {
    const double value = Keep(cells_.Number(column, 0), 1.0);
    if (value > 0 || cells_.Text(column).empty()) return value;
    if (!error_) {
      error_ =
          Error{ErrorCode::kInvalidArgument, cells_.Place(column) + ": must be a number above 0"};
    }
    return 1;
  }
  std::string Place(std::string_view column) const { return cells_.Place(column); }
  Result<void> Finish() {
    if (error_) return tl::unexpected<Error>(*error_);
    return {};
  }

 private:
  template <class T>
  T Keep(Result<T> value, T otherwise) {
    if (value.has_value()) return *value;
    if (!error_) error_ = value.error();
    return otherwise;
  }

  CsvReader cells_;
  std::optional<Error> error_;
};

// The parts of "b=1, m=4096, layout=TN". A count that is missing or bad makes `ok` false.
class ShapeText {
 public:
  explicit ShapeText(const std::string& text) {
    for (const std::string_view part : Split(text, ',')) {
      const std::size_t at = part.find('=');
      if (at == part.npos) continue;
      parts_.emplace(Trim(part.substr(0, at)), Trim(part.substr(at + 1)));
    }
  }

  std::int64_t Count(const std::string& name) {
    const auto value = ParseInt(name, Text(name), 1, kMaxSize);
    if (!value.has_value() && missing_.empty()) missing_ = name;
    return value.value_or(1);
  }
  std::string Text(const std::string& name) const {
    const auto at = parts_.find(name);
    return at == parts_.end() ? "" : at->second;
  }
  const std::string& missing() const { return missing_; }  // first bad count; empty: none

 private:
  std::map<std::string, std::string, std::less<>> parts_;
  std::string missing_;
};

std::int64_t ElementSize(std::string_view type) { return type == "fp32" ? 4 : 2; }

void ReadProduct(Cells& cells, TimingRow& row) {
  row.kind = "gemm";
  row.format = cells.Text("format");
  const ProductShape shape = {cells.Count("m"), cells.Count("n"), cells.Count("k"), 1};
  row.measured_s = cells.Positive("ms") / kMsPerS;
  const std::optional<ProductFormat> format = ParseProductFormat(row.format);
  if (!format) {
    row.refusal = "no model of the format " + Printable(row.format);
    return;
  }
  const double least_ms = cells.Has("ms_least") ? cells.Positive("ms_least") : 0;
  const bool several = cells.Has("libraries") && cells.Positive("libraries") > 1;
  const double best = several && row.measured_s > 0 ? least_ms / (row.measured_s * kMsPerS) : 0;
  row.kernel = ProductRow{*format, shape, best};
}

void ReadAttention(Cells& cells, TimingRow& row) {
  row.kind = "attention_forward";
  row.format = "bfloat16";
  AttentionShape shape = {.batch = cells.Count("batch"),
                          .sequence = cells.Count("sequence"),
                          .heads = cells.Count("heads"),
                          .kv_heads = cells.Count("kv_heads"),
                          .head_dim = cells.Count("head_dim")};
  shape.value_dim = shape.head_dim;
  row.measured_s = cells.Positive("ms") / kMsPerS;
  row.kernel = shape;
}

void ReadExperts(Cells& cells, TimingRow& row) {
  row.kind = "experts_forward";
  row.format = cells.Text("format");
  ExpertsRow experts;
  experts.shape = {.tokens = cells.Count("tokens"),
                   .hidden = cells.Count("hidden"),
                   .ffn_hidden = cells.Count("ffn_hidden"),
                   .topk = cells.Count("topk"),
                   .experts = cells.Count("experts"),
                   .tp = cells.Count("tp"),
                   .ep = cells.Count("ep")};
  row.measured_s = cells.Positive("ms") / kMsPerS;
  const std::optional<ProductFormat> format = ParseProductFormat(row.format);
  const std::string load = cells.Text("distribution");
  const std::optional<ExpertLoad> known = ParseExpertLoad(load);
  if (!format) row.refusal = "no model of the format " + Printable(row.format);
  if (!known) row.refusal = "no model of the distribution " + Printable(load);
  if (!row.refusal.empty()) return;
  experts.format = *format;
  experts.shape.load = *known;
  row.kernel = experts;
}

// Products of training. Weight gradients of groups have the tokens as depth.
void ReadTrainingProduct(ShapeText& text, bool grouped, TimingRow& row) {
  TrainingProduct product;
  if (grouped) {
    const std::int64_t m = text.Count("M"), n = text.Count("N"), k = text.Count("K");
    const std::string stage = text.Text("stage");
    product.shape = {m, n, k, text.Count("ng")};
    if (stage == "bwd_grad_act") {
      product.shape = {m, k, n, product.shape.groups};
      product.layout = ProductLayout::kNn;
    } else if (stage == "bwd_grad_w") {
      product.shape = {n, k, m, product.shape.groups};
      product.layout = ProductLayout::kNt;
      product.sum_bytes = ElementSize(text.Text("main_grad_dtype"));
    }
    row.format = text.Text("dtype");
  } else {
    product.shape = {text.Count("m"), text.Count("n"), text.Count("k"), text.Count("b")};
    const std::string layout = text.Text("layout");
    const std::optional<ProductLayout> known = ParseProductLayout(layout);
    if (!known) row.refusal = "no model of the layout " + Printable(layout);
    product.layout = known.value_or(ProductLayout::kTn);
    product.sum_bytes = ElementSize(text.Text("out_dtype"));
    row.format = "bf16";
  }
  product.accumulate = text.Text("accumulate") == "True";
  const ProductShape& shape = product.shape;
  row.flop = 2.0 * static_cast<double>(shape.groups) * static_cast<double>(shape.m) *
             static_cast<double>(shape.n) * static_cast<double>(shape.k);
  if (row.format != "bf16") row.refusal = "no model of training in " + Printable(row.format);
  if (row.refusal.empty()) row.kernel = product;
}

// SimuMax counts 2 and 5 products of full squares [1].
// [1] MooreThreads/SimuMax, simu_tools/efficency_test/test_fa_efficiency.py
void ReadTrainingAttention(ShapeText& text, bool forward, TimingRow& row) {
  TrainingAttentionRow attention;
  attention.forward = forward;
  AttentionShape& shape = attention.shape;
  shape = {.batch = text.Count("batch"),
           .sequence = text.Count("seq_len"),
           .heads = text.Count("head_num"),
           .kv_heads = text.Count("kv_head_num"),
           .head_dim = text.Count("qk_head_dim"),
           .value_dim = text.Count("v_head_dim")};
  const auto sequence = static_cast<double>(shape.sequence);
  row.flop = (forward ? 2.0 : 5.0) * static_cast<double>(shape.batch) * sequence * sequence *
             static_cast<double>(std::max(shape.heads, shape.kv_heads)) *
             static_cast<double>(shape.head_dim + shape.value_dim);
  row.format = "bf16";
  row.kernel = attention;
}

Result<void> ReadShare(Cells& cells, TimingRow& row) {
  row.kind = cells.Text("kind");
  ShapeText text(cells.Text("shape"));
  if (row.kind == "matmul" || row.kind == "group_matmul") {
    ReadTrainingProduct(text, row.kind == "group_matmul", row);
  } else if (row.kind == "sdp_fwd" || row.kind == "sdp_bwd") {
    ReadTrainingAttention(text, row.kind == "sdp_fwd", row);
  } else {
    row.refusal = "no model of the kind " + Printable(row.kind);
  }
  if (!text.missing().empty()) {
    return Refuse("{}: {} is missing or no count from 1; write it as {}=4096", cells.Place("shape"),
                  text.missing(), text.missing());
  }
  row.peak_flop_per_s = cells.Positive("peak_tflops") * 1e12;
  const double share = cells.Positive("share_of_peak");
  if (row.peak_flop_per_s == 0) {
    return Refuse("{}: is empty; give the peak in TFLOP/s that the share counts from",
                  cells.Place("peak_tflops"));
  }
  if (share > 0) row.measured_s = row.flop / (share * row.peak_flop_per_s);
  return {};
}

void ReadCollective(Cells& cells, TimingRow& row) {
  row.kind = cells.Text("collective");
  row.format = cells.Text("format");
  const CollectiveShape shape = {kHalfBytes * cells.Count("message_size"), cells.Count("gpus")};
  row.measured_s = cells.Positive("ms") / kMsPerS;
  const std::optional<std::size_t> at = CollectiveAt(row.kind);
  if (!at.has_value() || row.format != "half") {
    row.refusal = fmt::format("no model of {} in {}", Printable(row.kind), Printable(row.format));
    return;
  }
  row.kernel = CollectiveRow{kMeasuredCollectives[*at].kind, shape};
}

void ReadExchange(Cells& cells, TimingRow& row) {
  row.kind = "exchange";
  row.format = "bfloat16";
  ExchangeRow exchange;
  exchange.dispatch = {.nodes = cells.Count("nodes"),
                       .hidden = cells.Count("hidden"),
                       .tokens = cells.Count("tokens"),
                       .topk = cells.Count("topk"),
                       .experts = cells.Count("experts"),
                       .multiprocessors = cells.Count("dispatch_sms")};
  exchange.combine_multiprocessors = cells.Count("combine_sms");
  row.measured_s = cells.Positive("dispatch_us") / kUsPerS;
  exchange.combine_s = cells.Positive("combine_us") / kUsPerS;
  if (exchange.dispatch.topk > exchange.dispatch.experts) {
    row.refusal = "topk is above experts";
    return;
  }
  row.kernel = exchange;
}

// A kind and the columns that tell its tables; the measured ones may be missing.
struct KindColumns {
  TimingTableKind kind;
  std::initializer_list<std::string_view> columns;
};
const std::array<KindColumns, 6>& Kinds() {
  static const std::array<KindColumns, 6> kinds = {{
      {TimingTableKind::kExperts,
       {"format", "tokens", "hidden", "ffn_hidden", "topk", "experts", "tp", "ep", "distribution"}},
      {TimingTableKind::kProducts, {"format", "m", "n", "k"}},
      {TimingTableKind::kAttention, {"batch", "sequence", "heads", "kv_heads", "head_dim"}},
      {TimingTableKind::kShares, {"kind", "shape", "peak_tflops"}},
      {TimingTableKind::kCollectives, {"collective", "format", "gpus", "message_size"}},
      {TimingTableKind::kExchange,
       {"nodes", "hidden", "tokens", "topk", "experts", "dispatch_sms", "combine_sms"}},
  }};
  return kinds;
}

std::optional<TimingTableKind> KindOf(const CsvTable& csv) {
  if (csv.Column("device") < 0) return std::nullopt;
  for (const KindColumns& kind : Kinds()) {
    bool all = true;
    for (const std::string_view column : kind.columns) all = all && csv.Column(column) >= 0;
    if (all) return kind.kind;
  }
  return std::nullopt;
}

Result<void> ReadRow(TimingTableKind kind, Cells& cells, TimingRow& row) {
  switch (kind) {
    case TimingTableKind::kProducts:
      ReadProduct(cells, row);
      break;
    case TimingTableKind::kAttention:
      ReadAttention(cells, row);
      break;
    case TimingTableKind::kExperts:
      ReadExperts(cells, row);
      break;
    case TimingTableKind::kShares:
      FT_TRY(ReadShare(cells, row));
      break;
    case TimingTableKind::kCollectives:
      ReadCollective(cells, row);
      break;
    case TimingTableKind::kExchange:
      ReadExchange(cells, row);
      break;
  }
  return cells.Finish();
}

}  // namespace

ExchangeShape ExchangeRow::ShapeOf(ExchangePart part) const {
  ExchangeShape shape = dispatch;
  if (part == ExchangePart::kCombine) shape.multiprocessors = combine_multiprocessors;
  return shape;
}

Result<TimingTable> ParseTimingTable(std::string_view text, std::string_view file) {
  TimingTable out;
  FT_ASSIGN(out.csv, ParseCsv(text, file, kLimits));
  const std::optional<TimingTableKind> kind = KindOf(out.csv);
  if (!kind.has_value()) {
    return Refuse(
        "{}: its columns are of no known table of kernels; docs/validation.md lists the columns of "
        "each kind",
        file);
  }
  out.kind = *kind;
  for (const CsvRow& cells : out.csv.rows) {
    TimingRow row;
    Cells reader(out.csv, cells);
    row.device = reader.Text("device");
    FT_TRY(ReadRow(*kind, reader, row));
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace foretrain
