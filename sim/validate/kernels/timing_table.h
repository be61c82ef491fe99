// Reads tables of measured kernels: products, attention, experts, collectives, exchange of experts'
// tokens, and shares of the peak. The columns tell a table's kind.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "sim/config/csv.h"
#include "sim/cost/measured/attention_model.h"
#include "sim/cost/measured/collective_model.h"
#include "sim/cost/measured/exchange_model.h"
#include "sim/cost/measured/experts_model.h"
#include "sim/cost/measured/gemm_model.h"
#include "sim/cost/measured/training_model.h"
#include "sim/program/ir/op.h"

namespace foretrain {

enum class TimingTableKind { kProducts, kAttention, kExperts, kShares, kCollectives, kExchange };

struct ProductRow {
  ProductFormat format = ProductFormat::kBf16;
  ProductShape shape;
  // Time in the best of several libraries relative to measured_s; 0: one library, or not stated.
  double best_share = 0;
};
struct ExpertsRow {
  ProductFormat format = ProductFormat::kBf16;
  ExpertsShape shape;
};
// Attention in training, counted in full: twice the causal half.
struct TrainingAttentionRow {
  AttentionShape shape;
  bool forward = true;
};

// Among all devices of one node or link domain.
struct CollectiveRow {
  OpKind kind = OpKind::kAllReduce;
  CollectiveShape shape;
};

// Dispatch and combine of the same tokens. TimingRow::measured_s is the dispatch's.
struct ExchangeRow {
  ExchangeShape dispatch;
  std::int64_t combine_multiprocessors = 1;
  double combine_s = 0;  // 0: not measured

  ExchangeShape ShapeOf(ExchangePart part) const;
};

struct TimingRow {
  std::string device;
  std::string
      kind;  // "gemm", "attention_forward", "experts_forward", "matmul", "sdp_bwd", "exchange", ...
  std::string format;  // as the table writes it; "bfloat16" where it has no such column
  // Empty with the reason in `refusal`.
  std::variant<std::monostate, ProductRow, AttentionShape, ExpertsRow, TrainingProduct,
               TrainingAttentionRow, CollectiveRow, ExchangeRow>
      kernel;
  std::string refusal;    // why no model can forecast the row
  double measured_s = 0;  // 0: not measured
  double flop = 0;        // of rows that state a share of the peak; as their source counts them
  double peak_flop_per_s = 0;
};

struct TimingTable {
  TimingTableKind kind = TimingTableKind::kProducts;
  CsvTable csv;
  std::vector<TimingRow> rows;  // parallel to csv.rows
};

// Parses a table; `file` is its origin for messages.
//
// Errors: kCorruptInput or kInvalidArgument, naming file, line and column: bad CSV, columns of no
// known table, or a number that is missing or out of range. Unknown formats, layouts and loads are
// rows with a `refusal`. O(bytes); safe from any thread.
Result<TimingTable> ParseTimingTable(std::string_view text, std::string_view file);

}  // namespace foretrain
