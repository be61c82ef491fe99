// Embedding tables: lookup by id, and gradient sums by id in the order of the rows. Floating-point
// atomics are avoided, because their order varies from run to run.
#include "kernels/cuda/device/entries.h"
#include "kernels/cuda/own/positions.cuh"

namespace foretrain {
namespace {

// One octet of columns per thread. A row whose id lies in another rank's part of the table becomes
// 0.
template <class T>
__global__ void EmbeddingForwardKernel(FtEmbeddingForward g, Runs runs) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t row = thread / octets, col = thread % octets * kOctet;
  if (row >= g.rows) return;
  const std::int64_t left = g.cols - col, id = g.ids[row] - g.first_id;
  float x[kOctet] = {}, position[kOctet] = {};
  if (id >= 0 && id < g.vocab) {
    LoadAnyOctet(g.table, g.table_dtype, id * g.cols + col, left, x);
    if (g.positions != nullptr) {
      const std::int64_t at = g.first_row + row;
      const std::int64_t start = g.document_starts != nullptr ? g.document_starts[at] : 0;
      const std::int64_t place = runs.PositionOf(at % g.sequence) - start;
      LoadAnyOctet(g.positions, g.table_dtype, place * g.cols + col, left, position);
    }
#pragma unroll
    for (int i = 0; i < kOctet; ++i) x[i] = x[i] * g.scale + position[i];
  }
  StoreOctet(static_cast<T*>(g.out) + row * g.cols + col, left, x);
}

void EmbeddingForward(CudaCheck& check, const FtEmbeddingForward& g) {
  const Runs runs = RunsOf(check, g.runs, g.run_count);
  if (!check.ok() || g.rows * g.cols == 0) return;
  FtEmbeddingForward scaled = g;
  scaled.scale = g.scale == 0.0F ? 1.0F : g.scale;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  WithType(g.dtype, [&](auto type) {
    FT_LAUNCH(EmbeddingForwardKernel<decltype(type)>, dim3(Blocks(g.rows * octets, kBlock)),
              dim3(kBlock), 0, check.stream(), scaled, runs);
  });
}

// ---- backward: a counting sort of the rows by id
// Rows are counted with integer atomics, whose result does not depend on order. They are then dealt
// to their id's range in any order, and sorted there by row number.

struct Buckets {
  std::int32_t* begins;  // [vocab + 1]: first place of each id
  std::int32_t* next;    // [vocab]: counts, then the next free place of each id
  std::int32_t* dealt;   // [rows]: grouped by id, in any order within an id
  std::int32_t* sorted;  // [rows]: the same, in ascending order within an id
  float* sums;           // [places of pieces, cols]
};

// Row of this rank's table; -1 for an id of another rank or without a row.
FT_DEVICE std::int64_t IdOf(const FtEmbeddingBackward& g, std::int64_t row) {
  const std::int64_t id = g.ids[row] - g.first_id;
  return id >= 0 && id < g.vocab ? id : -1;
}

__global__ void CountIdsKernel(FtEmbeddingBackward g, std::int32_t* counts) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t id = row < g.rows ? IdOf(g, row) : -1;
  if (id >= 0) atomicAdd(counts + id, 1);
}

__global__ void ClearCountsKernel(std::int32_t* counts, std::int64_t vocab) {
  const std::int64_t id = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (id < vocab) counts[id] = 0;
}

constexpr int kScanBlock = 1024;

// Exclusive prefix sum of the counts into `begins` and `next`. One block; each thread scans one
// stretch of ids, then the stretches are combined in shared memory by doubling distances.
__global__ void __launch_bounds__(kScanBlock) ScanKernel(Buckets b, std::int64_t vocab) {
  __shared__ std::int32_t of_threads[kScanBlock];
  const int me = static_cast<int>(threadIdx.x);
  const std::int64_t stretch = (vocab + kScanBlock - 1) / kScanBlock;
  const std::int64_t begin = me * stretch < vocab ? me * stretch : vocab;
  const std::int64_t end = begin + stretch < vocab ? begin + stretch : vocab;
  std::int32_t sum = 0;
  for (std::int64_t id = begin; id < end; ++id) sum += b.next[id];
  of_threads[me] = sum;
  __syncthreads();
  for (int reach = 1; reach < kScanBlock; reach *= 2) {
    const std::int32_t before = me >= reach ? of_threads[me - reach] : 0;
    __syncthreads();
    of_threads[me] += before;
    __syncthreads();
  }
  std::int32_t at = of_threads[me] - sum;
  for (std::int64_t id = begin; id < end; ++id) {
    const std::int32_t count = b.next[id];
    b.begins[id] = at;
    b.next[id] = at;
    at += count;
  }
  if (me == kScanBlock - 1) b.begins[vocab] = of_threads[me];
}

// The atomic hands out places in an order that varies; SortRowsKernel removes that.
__global__ void DealRowsKernel(FtEmbeddingBackward g, Buckets b) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t id = row < g.rows ? IdOf(g, row) : -1;
  if (id >= 0) b.dealt[atomicAdd(b.next + id, 1)] = static_cast<std::int32_t>(row);
}

// Places each row after the rows of its id with a lower number. Quadratic in the rows of one id,
// which are few.
__global__ void SortRowsKernel(FtEmbeddingBackward g, Buckets b) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t id = row < g.rows ? IdOf(g, row) : -1;
  if (id < 0) return;
  std::int32_t before = 0;
  for (std::int32_t i = b.begins[id]; i < b.begins[id + 1]; ++i) before += b.dealt[i] < row ? 1 : 0;
  b.sorted[b.begins[id] + before] = static_cast<std::int32_t>(row);
}

// The rows of an id are added in pieces of `piece` rows, so that a frequent id keeps many threads
// busy. Pieces and their order follow from the id's rows alone: equal inputs give equal bits, also
// if the vocabulary is split over ranks.
//
//   id      A A A A A A A A B C C C C C C      piece 3
//   piece   0     1     2   0 0     1          B's sum goes to the table, A's and C's are joined
//
// Between two multiples of `piece`, pieces of at most two such ids begin: the last of one and the
// first of the next. So a piece has the place 2 (begin / piece), plus 1 if it is the id's first.
FT_DEVICE std::int64_t PlaceOfPiece(std::int64_t begin, std::int64_t piece, bool is_first) {
  return begin / piece * 2 + (is_first ? 1 : 0);
}

// Adds the rows [begin, end) of the sorted list to `sum`.
template <class T>
FT_DEVICE void AddRows(const FtEmbeddingBackward& g, const Buckets& b, std::int64_t begin,
                       std::int64_t end, std::int64_t col, float (&sum)[kOctet]) {
  float dy[kOctet];
  for (std::int64_t i = begin; i < end; ++i) {
    LoadOctet(static_cast<const T*>(g.dy) + b.sorted[i] * g.cols + col, g.cols - col, dy);
#pragma unroll
    for (int j = 0; j < kOctet; ++j) sum[j] += dy[j] * g.scale;
  }
}

// One octet of columns of the piece that begins at one place of the sorted list per thread; most
// places begin no piece.
template <class T>
__global__ void SumPiecesKernel(FtEmbeddingBackward g, Buckets b, std::int64_t piece) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t begin = thread / octets, col = thread % octets * kOctet;
  if (begin >= b.begins[g.vocab]) return;
  const std::int64_t id = IdOf(g, b.sorted[begin]), first = b.begins[id], end = b.begins[id + 1];
  if (end - first <= piece || (begin - first) % piece != 0) return;
  float sum[kOctet] = {};
  AddRows<T>(g, b, begin, begin + piece < end ? begin + piece : end, col, sum);
  StoreOctet(b.sums + PlaceOfPiece(begin, piece, begin == first) * g.cols + col, g.cols - col, sum);
}

// One octet of columns of one id per thread: adds its rows or, where it has several pieces, theirs.
template <class T>
__global__ void SumIdsKernel(FtEmbeddingBackward g, Buckets b, std::int64_t piece) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t id = thread / octets, col = thread % octets * kOctet;
  if (id >= g.vocab) return;
  const std::int64_t first = b.begins[id], end = b.begins[id + 1];
  if (first == end && g.accumulate_table != 0) return;
  const std::int64_t left = g.cols - col, at = id * g.cols + col;
  float sum[kOctet] = {}, part[kOctet];
  if (g.accumulate_table != 0) LoadAnyOctet(g.table_grad, g.grad_dtype, at, left, sum);
  if (end - first <= piece) {
    AddRows<T>(g, b, first, end, col, sum);
  } else {
    for (std::int64_t begin = first; begin < end; begin += piece) {
      LoadOctet(b.sums + PlaceOfPiece(begin, piece, begin == first) * g.cols + col, left, part);
#pragma unroll
      for (int j = 0; j < kOctet; ++j) sum[j] += part[j];
    }
  }
  StoreAnyOctet(g.table_grad, g.grad_dtype, at, left, sum);
}

// One octet of columns of one position per thread; adds the samples in order.
template <class T>
__global__ void PositionsKernel(FtEmbeddingBackward g, Runs runs) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t place = thread / octets, col = thread % octets * kOctet;
  if (place >= g.sequence) return;
  const std::int64_t left = g.cols - col, at = runs.PositionOf(place) * g.cols + col;
  float sum[kOctet] = {}, dy[kOctet];
  if (g.accumulate_positions != 0) LoadAnyOctet(g.positions_grad, g.grad_dtype, at, left, sum);
  for (std::int64_t row = place; row < g.rows; row += g.sequence) {
    LoadOctet(static_cast<const T*>(g.dy) + row * g.cols + col, left, dy);
#pragma unroll
    for (int j = 0; j < kOctet; ++j) sum[j] += dy[j];
  }
  StoreAnyOctet(g.positions_grad, g.grad_dtype, at, left, sum);
}

// The same where positions count from the starts of documents: any row may have the position, so
// each thread looks at all of them, in order.
template <class T>
__global__ void DocumentPositionsKernel(FtEmbeddingBackward g, Runs runs, std::int64_t places) {
  const std::int64_t thread = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  const std::int64_t place = thread / octets, col = thread % octets * kOctet;
  if (place >= places) return;
  const std::int64_t left = g.cols - col, at = place * g.cols + col;
  float sum[kOctet] = {}, dy[kOctet];
  LoadAnyOctet(g.positions_grad, g.grad_dtype, at, left, sum);
  for (std::int64_t row = 0; row < g.rows; ++row) {
    if (runs.PositionOf(row % g.sequence) - g.document_starts[row] != place) continue;
    LoadOctet(static_cast<const T*>(g.dy) + row * g.cols + col, left, dy);
#pragma unroll
    for (int j = 0; j < kOctet; ++j) sum[j] += dy[j];
  }
  StoreAnyOctet(g.positions_grad, g.grad_dtype, at, left, sum);
}

// Positions below this number may occur.
std::int64_t PlacesOf(const FtEmbeddingBackward& g, const Runs& runs) {
  std::int64_t places = runs.count == 0 ? g.sequence : 0;
  for (std::int32_t r = 0; r < runs.count; ++r) {
    const std::int64_t end = runs.at[r].position + runs.at[r].rows;
    places = end > places ? end : places;
  }
  return places;
}

// Bytes of the sums of pieces. Depends on rows and columns alone, as results depend on the pieces.
std::int64_t SumBytes(const FtEmbeddingBackward& g, std::int64_t piece) {
  return (g.rows / piece + 1) * 2 * g.cols * std::int64_t{sizeof(float)};
}
std::int64_t PieceOf(const FtEmbeddingBackward& g) {
  std::int64_t piece = 64;
  while (piece < g.rows && SumBytes(g, piece) > kWorkspaceBytes / 2) piece *= 2;
  return piece;
}

// Cuts the queue's workspace into the five arrays.
Buckets BucketsOf(CudaCheck& check, const FtEmbeddingBackward& g, std::int64_t piece) {
  const std::int64_t sums = SumBytes(g, piece), ints = 2 * g.vocab + 1 + 2 * g.rows;
  std::byte* const all = check.Workspace(sums + ints * std::int64_t{sizeof(std::int32_t)});
  if (all == nullptr) return {};
  auto* const at = reinterpret_cast<std::int32_t*>(all + sums);
  return {at, at + g.vocab + 1, at + 2 * g.vocab + 1, at + 2 * g.vocab + 1 + g.rows,
          reinterpret_cast<float*>(all)};
}

void LaunchTable(FtQueue* queue, const FtEmbeddingBackward& g, const Buckets& b,
                 std::int64_t piece) {
  const dim3 block(kBlock), of_rows(Blocks(g.rows, kBlock));
  void* const stream = StreamOf(queue);
  FT_LAUNCH(ClearCountsKernel, dim3(Blocks(g.vocab, kBlock)), block, 0, stream, b.next, g.vocab);
  if (g.rows > 0) FT_LAUNCH(CountIdsKernel, of_rows, block, 0, stream, g, b.next);
  FT_LAUNCH(ScanKernel, dim3(1), dim3(kScanBlock), 0, stream, b, g.vocab);
  if (g.rows > 0) FT_LAUNCH(DealRowsKernel, of_rows, block, 0, stream, g, b);
  if (g.rows > 0) FT_LAUNCH(SortRowsKernel, of_rows, block, 0, stream, g, b);
  const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
  WithType(g.dtype, [&](auto type) {
    if (g.rows > piece) {
      FT_LAUNCH(SumPiecesKernel<decltype(type)>, dim3(Blocks(g.rows * octets, kBlock)), block, 0,
                stream, g, b, piece);
    }
    FT_LAUNCH(SumIdsKernel<decltype(type)>, dim3(Blocks(g.vocab * octets, kBlock)), block, 0,
              stream, g, b, piece);
  });
}

void EmbeddingBackward(CudaCheck& check, const FtEmbeddingBackward& g) {
  check.AtMost("rows", g.rows, 0x7fffffff).AtMost("vocab", g.vocab, 0x7fffffff);
  const Runs runs = RunsOf(check, g.runs, g.run_count);
  if (!check.ok() || g.cols == 0 || g.vocab == 0) return;
  const std::int64_t piece = PieceOf(g);
  const Buckets buckets = BucketsOf(check, g, piece);
  if (!check.ok()) return;
  FtEmbeddingBackward scaled = g;
  scaled.scale = g.scale == 0.0F ? 1.0F : g.scale;
  LaunchTable(check.queue(), scaled, buckets, piece);
  if (g.positions_grad != nullptr) {
    const std::int64_t octets = (g.cols + kOctet - 1) / kOctet;
    WithType(g.dtype, [&](auto type) {
      const dim3 grid(Blocks(g.sequence * octets, kBlock));
      if (g.document_starts != nullptr) {
        const std::int64_t places = PlacesOf(g, runs);
        FT_LAUNCH(DocumentPositionsKernel<decltype(type)>, dim3(Blocks(places * octets, kBlock)),
                  dim3(kBlock), 0, check.stream(), scaled, runs, places);
        return;
      }
      FT_LAUNCH(PositionsKernel<decltype(type)>, grid, dim3(kBlock), 0, check.stream(), scaled,
                runs);
    });
  }
}

}  // namespace

void SetCudaEmbeddingEntries(FtDeviceApi& api) {
  SetCuda<&FtDeviceApi::embedding_forward, &EmbeddingForward>(api);
  SetCuda<&FtDeviceApi::embedding_backward, &EmbeddingBackward>(api);
}

}  // namespace foretrain
