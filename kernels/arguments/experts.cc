// Arguments of routers and of the row copies around experts.
#include "kernels/arguments/describe.h"
#include "kernels/arguments/tensors.h"

namespace foretrain {
namespace {

// Expert, pair and row numbers are stored in 32 bits.
constexpr std::int64_t kMaxPairs = 0x7fffffff;
constexpr std::int64_t kMaxGroups = 64;

// Expert rows per piece and expert with a capacity.
std::int64_t RoomOf(const FtRoute& g) { return (g.capacity + g.pieces - 1) / g.pieces; }

// Bounds sizes before their products are formed.
void Sizes(ArgumentReader& reader, const FtRoute& g) {
  reader.Size("rows", g.rows).Size("capacity", g.capacity).AtLeast("per_token", g.per_token, 1);
  reader.AtLeast("experts", g.experts, g.per_token).AtLeast("pieces", g.pieces, 1);
  reader.AtLeast("balance_rows", g.balance_rows, 1).Size("group_limit", g.group_limit);
  if (!reader.ok()) return;
  const std::int64_t groups = g.group_limit > 0 ? g.expert_groups : 1;
  if (groups < 1 || groups > kMaxGroups || g.experts % groups != 0 || g.group_limit > groups ||
      (g.group_limit > 0 && g.experts / groups * g.group_limit < g.per_token)) {
    reader.Refuse(FT_FAILED, "expert_groups %lld, group_limit %lld: do not fit experts %lld",
                  static_cast<long long>(g.expert_groups), static_cast<long long>(g.group_limit),
                  static_cast<long long>(g.experts));
  }
  if (g.rows % g.balance_rows != 0) {
    reader.Refuse(FT_FAILED, "rows %lld: must be a multiple of balance_rows %lld",
                  static_cast<long long>(g.rows), static_cast<long long>(g.balance_rows));
  }
  if (g.rows > kMaxPairs / g.per_token || g.experts > kMaxPairs / g.pieces ||
      (g.capacity > 0 && RoomOf(g) > kMaxPairs / (g.experts * g.pieces))) {
    reader.Refuse(FT_UNSUPPORTED, "rows %lld, per_token %lld: more than 2^31 pairs or rows",
                  static_cast<long long>(g.rows), static_cast<long long>(g.per_token));
  }
}

}  // namespace

void Describe(ArgumentReader& reader, FtRoute& g) {
  reader.Float("dtype", g.dtype);
  if (g.choice_bias != nullptr) reader.Float("choice_bias_dtype", g.choice_bias_dtype);
  Sizes(reader, g);
  if (!reader.ok()) return;
  const Extent all = Rows(g.rows, g.experts), pairs = Rows(g.rows, g.per_token);
  const std::int64_t expert_rows =
      g.capacity > 0 ? g.pieces * g.experts * RoomOf(g) : g.rows * g.per_token;
  reader.Tensors(
      {Read("logits", g.logits, g.dtype, all), Plain("probs", g.probs, all),
       Plain("weights", g.weights, pairs), Plain("chosen", g.chosen, pairs),
       Plain("places", g.places, pairs), Plain("sources", g.sources, Row(expert_rows)),
       Plain("counts", g.counts, Rows(g.capacity > 0 ? 1 : g.pieces, g.experts)),
       Plain("balance_counts", g.balance_counts, Rows(g.rows / g.balance_rows, g.experts)),
       Read("choice_bias", g.choice_bias, g.choice_bias_dtype, Row(g.experts), kOptional)});
}

void Describe(ArgumentReader& reader, FtRouteBackward& g) {
  reader.Float("dtype", g.dtype).Size("rows", g.rows).AtLeast("per_token", g.per_token, 1);
  reader.AtLeast("experts", g.experts, g.per_token).AtLeast("balance_rows", g.balance_rows, 1);
  if (!reader.ok()) return;
  const Extent all = Rows(g.rows, g.experts), pairs = Rows(g.rows, g.per_token);
  reader.Tensors(
      {Plain("probs", g.probs, all), Plain("weights", g.weights, pairs),
       Plain("chosen", g.chosen, pairs),
       Plain("balance_counts", g.balance_counts, Rows(g.rows / g.balance_rows, g.experts)),
       Plain("d_weights", g.d_weights, pairs), Write("d_logits", g.d_logits, g.dtype, all)});
}

void Describe(ArgumentReader& reader, FtCountChoices& g) {
  reader.Size("rows", g.rows).Size("per_token", g.per_token).AtLeast("experts", g.experts, 1);
  reader.Tensors({Plain("chosen", g.chosen, Rows(g.rows, g.per_token)),
                  Plain("loads", g.loads, Row(g.experts))});
}

void Describe(ArgumentReader& reader, FtBalanceBias& g) {
  reader.AtLeast("experts", g.experts, 1);
  reader.Tensors({Plain("loads", g.loads, Row(g.experts)), Plain("bias", g.bias, Row(g.experts))});
}

namespace {

// Extents of the tensors that move between tokens and experts.
struct Moved {
  Extent tokens, experts, pairs;
};
template <class Arguments>
Moved MovedBy(ArgumentReader& reader, Arguments& g) {
  reader.Float("dtype", g.dtype).Size("tokens", g.tokens).Size("expert_rows", g.expert_rows);
  reader.Size("cols", g.cols).AtLeast("per_token", g.per_token, 1);
  return {Rows(g.tokens, g.cols), Rows(g.expert_rows, g.cols), Rows(g.tokens, g.per_token)};
}

}  // namespace

void Describe(ArgumentReader& reader, FtExpertGather& g) {
  const Moved moved = MovedBy(reader, g);
  reader.Tensors({Read("x", g.x, g.dtype, moved.tokens),
                  Plain("sources", g.sources, Row(g.expert_rows)),
                  Write("out", g.out, g.dtype, moved.experts)});
}

void Describe(ArgumentReader& reader, FtExpertCombine& g) {
  const Moved moved = MovedBy(reader, g);
  reader.Tensors({Read("x", g.x, g.dtype, moved.experts), Plain("places", g.places, moved.pairs),
                  Write("out", g.out, g.dtype, moved.tokens)});
}

void Describe(ArgumentReader& reader, FtExpertDots& g) {
  const Moved moved = MovedBy(reader, g);
  reader.Tensors({Read("dy", g.dy, g.dtype, moved.tokens), Read("x", g.x, g.dtype, moved.experts),
                  Plain("places", g.places, moved.pairs), Plain("out", g.out, moved.pairs)});
}

}  // namespace foretrain
