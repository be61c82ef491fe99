// OpShape, the sizes of an op. sim/program/ops/op_kinds.def lists the fields that each kind uses.
#pragma once

#include <compare>
#include <cstdint>

namespace foretrain {

// Counts of elements, never bytes; a field that a kind does not use is 0.
//   products              c [rows, cols], reduction over inner; grouped: rows of all experts
//   attention             rows = batch * sequence; standard attention: inner is the number of keys
//                         whose values are summed, 0 if only the weights are computed; a part:
//                         rows queries against inner keys, batch and sequence of one rank's share
//   rope                  `rotary` elements of each head from rotary_first on; 0: the whole head
//   split columns         cols to the left, inner to the right
//   latent heads          the last `rotary` elements of a head are rotated
//   embedding, dropout    batch and sequence of one rank's share
//   route                 elements: rows of experts
//   gather, combine       rows of the output; elements: rows of the other side
//   collectives           elements of the whole tensor; tensors: parameters of the bucket if ZeRO
//                         scatters its gradients or gathers its updated parameters, else 0
//   quantize              elements in `rows` pieces, each its numbers followed by its scales; with
//                         scales in another operand, rows of `cols`
//   relative bias         heads; rows queries, inner keys, of one sample each
//   ops that follow counts  sizes for an even distribution of rows over experts
struct OpShape {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t inner = 0;
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t vocab = 0;
  std::int64_t elements = 0;
  std::int64_t decayed = 0;  // updates: leading elements that decay
  // Number of ids if `vocab` is another number, else 0. With more ids, `vocab` is one rank's share:
  // that of tp coordinate t begins at t * vocab, and the last shares may be short or empty. With
  // fewer, the columns past the last id are padding.
  std::int64_t vocab_total = 0;
  std::int32_t heads = 0;
  std::int32_t kv_heads = 0;
  std::int32_t head_dim = 0;
  std::int32_t rotary = 0;
  std::int32_t rotary_first = 0;
  std::int32_t value_dim = 0;    // 0: head_dim
  std::int32_t alibi_heads = 0;  // heads of the model whose slopes attention uses; 0: none
  std::int32_t experts = 0;
  std::int32_t per_token = 0;  // experts of a token
  std::int64_t capacity = 0;   // max rows of an expert; 0: no limit
  std::int64_t balance_rows = 0;
  std::int32_t expert_groups = 0;
  std::int32_t group_limit = 0;  // max expert groups of a token; 0: no limit
  std::int32_t group_top = 0;    // experts summed for a group's score; 0: per_token / group_limit
  // Shape [members, pieces, all_experts] of the counts tensor, if the number of arriving rows is
  // only known at run time. members 0: the sizes above are exact.
  std::int32_t members = 0;
  std::int32_t all_experts = 0;
  std::int32_t pieces = 0;
  std::int32_t piece = 0;
  std::int32_t cp = 0;    // ranks that share each sequence (context_parallel.h); 0: none
  std::int32_t turn = 0;  // attention part: keys come from rank r - turn
  std::int32_t tensors = 0;
  std::int64_t window = 0;   // tokens a query sees, itself included; 0: all before it
  std::int32_t buckets = 0;  // relative bias: of distances
  std::int32_t max_distance = 0;

  std::int32_t ValueDim() const { return value_dim > 0 ? value_dim : head_dim; }
  auto operator<=>(const OpShape&) const = default;
};

}  // namespace foretrain
