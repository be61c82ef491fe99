// CPU entries of attention parts (context parallelism) and of the row copies around their
// exchanges. Runs give the sequence positions of rows, and are checked like any other input.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/cpu/entries/check.h"
#include "kernels/cpu/entries/families.h"

namespace foretrain {
namespace {

// Checks the runs. Returns the number of rows a tensor needs to hold them for all samples; 0 if
// empty.
std::int64_t CheckRuns(Check& check, const char* name, const FtRun* runs, std::int64_t count,
                       std::int64_t batch, std::int64_t sample_rows) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t rows = 0;
  check.Size(name, count).Tensor(name, runs, count);
  for (std::int64_t i = 0; check.ok() && i < count; ++i) {
    const FtRun& run = runs[i];
    check.Size("row of a run", run.row).Size("position of a run", run.position);
    check.Size("rows of a run", run.rows);
    if (check.ok() && (run.row > kMost || run.position > kMost || run.rows > kMost)) {
      check.Refuse(FT_FAILED, "%s: run %lld lies past row or position 2^31", name,
                   static_cast<long long>(i));
    }
    if (check.ok() && run.rows > 0) rows = std::max(rows, run.row + run.rows);
  }
  return batch > 0 && rows > 0 ? rows + (batch - 1) * sample_rows : 0;
}

// Checks that forward and backward of a part share, and the row counts of queries and keys.
template <class Arguments>
void CheckPart(Check& check, const Arguments& g, std::int64_t& query_rows, std::int64_t& key_rows) {
  check.Size("batch", g.batch).Size("sample_rows", g.sample_rows).HeadDim(g.head_dim);
  check.AtLeast("heads", g.heads, 1).AtLeast("kv_heads", g.kv_heads, 1).Size("window", g.window);
  const std::int64_t value_dim = g.value_dim > 0 ? g.value_dim : g.head_dim;
  check.HeadDim(value_dim).Size("alibi_heads", g.alibi_heads).Size("first_head", g.first_head);
  if (check.ok() && g.heads % g.kv_heads != 0) {
    check.Refuse(FT_FAILED, "%d heads cannot share %d key heads evenly", g.heads, g.kv_heads);
  }
  if (check.ok() && g.sample_rows > 0 &&
      g.batch > std::numeric_limits<std::int32_t>::max() / g.sample_rows) {
    check.Refuse(FT_FAILED, "batch %lld of %lld rows each has over 2^31 rows",
                 static_cast<long long>(g.batch), static_cast<long long>(g.sample_rows));
  }
  check.AtLeast("q_stride", g.q_stride, std::int64_t{g.heads} * g.head_dim);
  check.AtLeast("kv_stride", g.kv_stride, std::int64_t{g.kv_heads} * g.head_dim);
  query_rows =
      CheckRuns(check, "query_runs", g.query_runs, g.query_run_count, g.batch, g.sample_rows);
  key_rows = CheckRuns(check, "key_runs", g.key_runs, g.key_run_count, g.batch, g.sample_rows);
  if (check.ok()) {
    check.Tensor("q", g.q, query_rows, g.q_stride);
    check.Tensor("k", g.k, key_rows, g.kv_stride).Tensor("v", g.v, key_rows, g.kv_stride);
    check.Tensor("out", g.out, query_rows, value_dim).Tensor("lse", g.lse, query_rows, g.heads);
  }
}

// One part of attention under context parallelism; with merge, out and lse already hold earlier
// parts.
FtStatus AttentionPartForward(FtQueue* queue, const FtAttentionPartForward* g) {
  Check check(queue, "attention_part_forward", g->dtype);
  std::int64_t query_rows = 0, key_rows = 0;
  CheckPart(check, *g, query_rows, key_rows);
  if (check.ok()) {
    queue->kernels->attention_part_forward(*g, queue->scratch.get());
  }
  return check.status();
}

// dk and dv have their own stride, so that one tensor can hold both.
FtStatus AttentionPartBackward(FtQueue* queue, const FtAttentionPartBackward* g) {
  Check check(queue, "attention_part_backward", g->dtype);
  std::int64_t query_rows = 0, key_rows = 0;
  CheckPart(check, *g, query_rows, key_rows);
  check.AtLeast("dkv_stride", g->dkv_stride, std::int64_t{g->kv_heads} * g->head_dim);
  if (check.ok()) {
    check.Tensor("dout", g->dout, query_rows)
        .Tensor("dq", g->dq, query_rows)
        .Tensor("dk", g->dk, key_rows)
        .Tensor("dv", g->dv, key_rows);
  }
  if (check.ok()) {
    queue->kernels->attention_part_backward(*g, queue->scratch.get());
  }
  return check.status();
}

// Copies a rectangle between two row strides, each at least as wide as the rectangle.
FtStatus CopyRows(FtQueue* queue, const FtCopyRows* g) {
  Check check(queue, "copy_rows", g->dtype);
  check.Size("rows", g->rows).Size("cols", g->cols);
  check.AtLeast("from_stride", g->from_stride, g->cols).AtLeast("to_stride", g->to_stride, g->cols);
  check.Tensor("from", g->from, g->rows, g->cols).Tensor("to", g->to, g->rows, g->cols);
  if (check.ok()) {
    queue->kernels->copy_rows(*g);
  }
  return check.status();
}

}  // namespace

void SetAttentionPartEntries(FtDeviceApi& api) {
  api.attention_part_forward = &AttentionPartForward;
  api.attention_part_backward = &AttentionPartBackward;
  api.copy_rows = &CopyRows;
}

}  // namespace foretrain
