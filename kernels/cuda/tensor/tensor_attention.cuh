// Shared parts of flash attention on tensor cores, for calls that attention_path.h sends there.
//
// A warp owns kRowTiles * 16 rows of one side: queries, or keys in the kernel for dk and dv. It
// walks the tiles of the other side, which all warps of the block read from shared memory. Scores,
// weights and gradients stay in the registers of the warp that owns their rows. Weights and score
// gradients are rounded to 16 bits before they are multiplied; sums are in fp32.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/own/attention/attention.cuh"
#include "kernels/cuda/tensor/tensor_core.cuh"

namespace foretrain {

constexpr int kTensorThreads = 128;
constexpr int kTensorWarps = kTensorThreads / kWarp;
constexpr float kLogOf2 = 0.6931471806F;

// Iterates over the tiles of runs that contain positions within `positions`. It keeps little state,
// because each register that it takes is lost to sums.
class TileWalk {
 public:
  FT_DEVICE bool Next(const Runs& runs, const Positions& positions, int tile_rows) {
    while (++tile_ >= end_) {
      if (++run_ >= runs.count) return false;
      const TileRange range =
          TilesWithin(runs.at[run_], positions.first, positions.last, tile_rows);
      tile_ = static_cast<int>(range.begin) - 1;
      end_ = static_cast<int>(range.end);
    }
    return true;
  }
  FT_DEVICE RowTile Tile(const Runs& runs, int tile_rows) const {
    return TileOfRun(runs.at[run_], tile_, tile_rows);
  }

 private:
  int run_ = -1, tile_ = -1, end_ = 0;
};

// True if each query of one tile sees each key of the other, for whole tiles of keys. No score then
// needs a mask.
FT_DEVICE bool SeesAll(const AttentionCall& g, const RowTile& queries, const RowTile& keys) {
  return keys.position + keys.rows - 1 <= queries.position &&
         (g.window == 0 || keys.position > queries.position + queries.rows - 1 - g.window);
}

// Row, within the warp's tiles, of value 2 h of fragment i.
FT_DEVICE int FragmentRow(int i, int h) { return i * kFragmentRows + h * 8 + LaneOf() / 4; }

// Column, within the tile, of value e of a pair of fragment j.
FT_DEVICE int FragmentCol(int j, int e) { return j * kFragmentCols + LaneOf() % 4 * 2 + e; }

// Reduction over the four lanes of a row.
template <class Join>
FT_DEVICE float JoinQuad(float x, Join join) {
#pragma unroll
  for (int bits = 1; bits < 4; bits *= 2) {
    const float other = __shfl_xor_sync(kAllLanes, x, bits);
    x = join(x, other);
  }
  return x;
}

// Sets all values of row r outside columns(r) to `hidden`.
template <int kRowTiles, int kColTiles, class ColumnsOf>
FT_DEVICE void Hide(float (&scores)[kRowTiles][kColTiles][4], float hidden, ColumnsOf columns) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const Columns seen = columns(FragmentRow(i, h));
#pragma unroll
      for (int j = 0; j < kColTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int col = FragmentCol(j, e);
          if (col < seen.from || col >= seen.to) scores[i][j][2 * h + e] = hidden;
        }
      }
    }
  }
}

// Address of element (row, col) of a head of a tensor.
template <class T>
FT_DEVICE const T* At(const void* tensor, std::int64_t row, std::int64_t stride, std::int64_t col) {
  return static_cast<const T*>(tensor) + row * stride + col;
}
template <class T>
FT_DEVICE T* At(void* tensor, std::int64_t row, std::int64_t stride, std::int64_t col) {
  return static_cast<T*>(tensor) + row * stride + col;
}

// Starts the copy of a tile of one head, which begins `row` rows into the tensor, to shared memory.
template <int kTileRows, int kDim, class T>
FT_DEVICE void CopyHead(const void* tensor, std::int64_t row, std::int64_t stride,
                        std::int64_t head, int head_dim, int rows, T* to) {
  CopyTile<kTileRows, kDim, kTensorThreads>(At<T>(tensor, row, stride, head * head_dim), stride,
                                            rows, head_dim, to);
}

// ---- on the host

// Collects the properties by which PathOf decides. 16-byte copies need all addresses and strides
// aligned, so their bits are combined first.
inline AttentionNeeds NeedsOf(FtQueue* queue, const AttentionCall& call,
                              std::initializer_list<const void*> tensors,
                              std::int64_t other_stride = 0) {
  auto bits = static_cast<std::uintptr_t>(call.q_stride | call.kv_stride | other_stride) * 2;
  for (const void* tensor : {call.q, call.k, call.v}) {
    bits |= reinterpret_cast<std::uintptr_t>(tensor);
  }
  for (const void* tensor : tensors) bits |= reinterpret_cast<std::uintptr_t>(tensor);
  return {call.dtype,
          call.head_dim,
          call.value_dim,
          call.softcap > 0.0F || call.alibi_heads > 0 || call.document_starts != nullptr,
          call.drops != 0,
          (bits & 15U) == 0,
          QueueOf(queue).capability};
}

// Calls use(T{}, integral_constant of the padded head dimension) for a call that PathOf sends here.
template <class Use>
void WithTensorHead(const AttentionCall& call, const Use& use) {
  const std::int32_t dim =
      PaddedTensorDim(call.head_dim > call.value_dim ? call.head_dim : call.value_dim);
  const auto with_type = [&](auto padded) {
    call.dtype == FT_BF16 ? use(Bf16{}, padded) : use(Fp16{}, padded);
  };
  if (dim == 64) {
    with_type(std::integral_constant<int, 64>{});
  } else if (dim == 80) {
    with_type(std::integral_constant<int, 80>{});
  } else if (dim == 96) {
    with_type(std::integral_constant<int, 96>{});
  } else {
    with_type(std::integral_constant<int, 128>{});
  }
}

// Enqueues a checked call with batch > 0. The backward needs `tensors` with delta.
FtStatus TensorAttentionForward(FtQueue* queue, CudaCheck& check, const char* name,
                                const AttentionCall& call, const ForwardOutputs& outputs,
                                std::int64_t batch);
FtStatus TensorAttentionBackward(FtQueue* queue, CudaCheck& check, const char* name,
                                 const AttentionCall& call, const BackwardTensors& tensors,
                                 std::int64_t batch);

}  // namespace foretrain
