// Experts' GEMMs on compute capability 9.0: tiles of 128 x 256, copied by one warp and multiplied
// by two warpgroups. One block a multiprocessor takes every n-th tile, and the copies of its next
// tile begin while the last one is stored.
//
//   warpgroup 0, warp 0   copies:    stage 0 │ 1 │ 2 │ 3 │ 0 ...   waits until a stage is free
//   warpgroup 1           products:  rows 0 to 63 of the tile      waits until a stage is full
//   warpgroup 2           products:  rows 64 to 127
//
//   stage, 64 of depth:   a [128 rows] 16 KiB │ b [256 columns] 32 KiB
//
// A stage has two barriers. `full` ends a phase when the copies' bytes have come, `empty` when all
// eight warps have multiplied. Products of one stage run while those of the next are issued. Depth
// runs in order, so an element's bits depend neither on its tile nor on the device.
#include "kernels/cuda/hopper/hopper_experts.cuh"

#include "kernels/cuda/hopper/warpgroup.cuh"
#include "kernels/cuda/own/experts/expert_runs.cuh"
#include "kernels/cuda/tensor/tensor_core.cuh"

namespace foretrain {
namespace {

constexpr int kRows = 128, kCols = 256, kDepth = 64;  // of a tile and of a step
constexpr int kStages = 4;
constexpr int kConsumers = 2;  // warpgroups that multiply
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;
constexpr int kLeftBytes = kRows * kPanelRowBytes, kRightBytes = kCols * kPanelRowBytes;
constexpr int kStageBytes = kLeftBytes + kRightBytes;
constexpr int kSums = kCols / 2;  // of a thread
constexpr std::int64_t kSharedBytes = kStages * kStageBytes + 2 * kStages * 8;

// Registers of a thread: few where copies are issued, so that sums find room. 40 * 128 + 232 * 256
// of the 65,536 of a multiprocessor.
constexpr int kCopyRegisters = 40, kProductRegisters = 232;

// Shared memory of the block.
struct Stages {
  unsigned char* at;
  std::uint64_t *full, *empty;

  FT_DEVICE unsigned char* Left(int stage) const { return at + stage * kStageBytes; }
  FT_DEVICE unsigned char* Right(int stage) const { return Left(stage) + kLeftBytes; }
};

// The stage that comes next, and the parity of its phase of `full`.
struct Turn {
  int stage = 0;
  unsigned parity = 0;
  FT_DEVICE void Next() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1U;
  }
};

// A tile of c: first row and column, the expert, and the rows and columns that exist.
struct Tile {
  std::int64_t row, col;
  unsigned expert;
  int rows, cols;
};

FT_DEVICE int AtMost(std::int64_t n, int most) { return n < most ? static_cast<int>(n) : most; }

// Tiles of a matrix in an order that keeps operands in the L2 cache: down 16 tiles of rows, then
// to the next column.
struct TileOrder {
  unsigned row, col;
};
FT_DEVICE TileOrder OrderOf(unsigned tile, unsigned down, unsigned across) {
  constexpr unsigned kBand = 16;
  const unsigned band = tile / (kBand * across), within = tile % (kBand * across);
  const unsigned left = down - band * kBand, high = left < kBand ? left : kBand;
  return {band * kBand + within % high, within / high};
}

FT_DEVICE unsigned TilesOf(std::int64_t n, int each) {
  return (static_cast<unsigned>(n) + each - 1) / each;
}

// Calls use(tile) for the block's tiles, all lanes of a warp together. FORWARD and INPUT: rows of c
// are those of a run, columns those of an expert's weights.
template <class Use>
FT_DEVICE void ForRowTiles(const FtGroupedGemm& g, std::int64_t cols, const Use& use) {
  const unsigned across = TilesOf(cols, kCols);
  RunSearch search;
  for (std::int64_t number = blockIdx.x;; number += gridDim.x) {
    const RunTile found = FindRunTile<kRows>(g, number, across, search);
    if (found.rows.count == 0) return;
    const TileOrder at = OrderOf(found.tile, TilesOf(found.rows.count, kRows), across);
    const std::int64_t row = std::int64_t{at.row} * kRows, col = std::int64_t{at.col} * kCols;
    use(Tile{found.rows.first + row, col, found.run % static_cast<unsigned>(g.experts),
             AtMost(found.rows.count - row, kRows), AtMost(cols - col, kCols)});
  }
}

// WEIGHT: rows and columns of c are those of an expert's weights.
template <class Use>
FT_DEVICE void ForWeightTiles(const FtGroupedGemm& g, const Use& use) {
  const unsigned down = TilesOf(g.out, kRows), across = TilesOf(g.in, kCols);
  const unsigned each = down * across, all = each * static_cast<unsigned>(g.experts);
  for (unsigned number = blockIdx.x; number < all; number += gridDim.x) {
    const TileOrder at = OrderOf(number % each, down, across);
    const std::int64_t row = std::int64_t{at.row} * kRows, col = std::int64_t{at.col} * kCols;
    use(Tile{row, col, number / each, AtMost(g.out - row, kRows), AtMost(g.in - col, kCols)});
  }
}

template <bool kWeight, class Use>
FT_DEVICE void ForTiles(const FtGroupedGemm& g, const Use& use) {
  if constexpr (kWeight) {
    ForWeightTiles(g, use);
  } else {
    ForRowTiles(g, g.mode == FT_GROUPED_FORWARD ? g.out : g.in, use);
  }
}

// Calls use(depth, left) for the steps of a tile: `left` of depth belong to it from `depth` on. In
// WEIGHT depth is the rows of all runs of the expert, in order.
template <bool kWeight, class Use>
FT_DEVICE void ForSteps(const FtGroupedGemm& g, const Tile& tile, const Use& use) {
  if constexpr (kWeight) {
    for (unsigned run = tile.expert; run < g.groups; run += static_cast<unsigned>(g.experts)) {
      const GroupRows rows = RowsBefore(g, run);
      for (std::int64_t done = 0; done < rows.count; done += kDepth) {
        use(rows.first + done, AtMost(rows.count - done, kDepth));
      }
    }
  } else {
    const std::int64_t depth = g.mode == FT_GROUPED_FORWARD ? g.in : g.out;
    for (std::int64_t done = 0; done < depth; done += kDepth) use(done, kDepth);
  }
}

// ---- copies

template <bool kDeep, int kOperandRows>
FT_DEVICE void CopyOperand(const TensorMap& map, std::int64_t row, std::int64_t depth,
                           unsigned plane, unsigned char* to, std::uint64_t* barrier) {
  const int x = static_cast<int>(depth), y = static_cast<int>(row), z = static_cast<int>(plane);
  if constexpr (kDeep) {
    CopyBox(map, x, y, z, to, barrier);
  } else {
#pragma unroll
    for (int panel = 0; panel < kOperandRows / kPanelRow; ++panel) {
      CopyBox(map, y + panel * kPanelRow, x, z, to + panel * kPanelBytes, barrier);
    }
  }
}

// The warp looks for tiles together; its first lane copies.
template <bool kLeftDeep, bool kRightDeep>
FT_DEVICE void CopyTiles(const FtGroupedGemm& g, const TensorMap& left, const TensorMap& right,
                         const Stages& stages) {
  constexpr bool kWeight = !kLeftDeep;
  Turn turn;
  ForTiles<kWeight>(g, [&](const Tile& tile) {
    ForSteps<kWeight>(g, tile, [&](std::int64_t depth, int) {
      if (LaneOf() == 0) {
        std::uint64_t* const full = stages.full + turn.stage;
        AwaitPhase(stages.empty + turn.stage, turn.parity ^ 1U);
        ArriveAndExpect(full, kStageBytes);
        CopyOperand<kLeftDeep, kRows>(left, tile.row, depth, 0, stages.Left(turn.stage), full);
        CopyOperand<kRightDeep, kCols>(right, tile.col, depth, kWeight ? 0 : tile.expert,
                                       stages.Right(turn.stage), full);
      }
      turn.Next();
    });
  });
}

// ---- products

FT_DEVICE int ConsumerThread() { return static_cast<int>(threadIdx.x) - kWarpgroup; }

// Sets rows [from, 64) of depth of flat panels to 0. `part` of `parts` threads.
template <int kPanels>
FT_DEVICE void ClearDepth(unsigned char* panels, int from, int part, int parts) {
  constexpr int kWords = kPanelRowBytes / 16;
#pragma unroll 1
  for (int item = part; item < kPanels * (kDepth - from) * kWords; item += parts) {
    const int panel = item / ((kDepth - from) * kWords), word = item % ((kDepth - from) * kWords);
    unsigned char* const at = panels + panel * kPanelBytes + from * kPanelRowBytes + word * 16;
    *reinterpret_cast<uint4*>(at) = uint4{0, 0, 0, 0};
  }
}

// The last step of a run also copies rows of the next one, which must not count.
FT_DEVICE void ClearPast(const Stages& stages, int stage, int left) {
  ClearDepth<kRows / kPanelRow>(stages.Left(stage), left, ConsumerThread(),
                                kConsumers * kWarpgroup);
  ClearDepth<kCols / kPanelRow>(stages.Right(stage), left, ConsumerThread(),
                                kConsumers * kWarpgroup);
  FenceSharedWrites();
  SyncThreads<1, kConsumers * kWarpgroup>();
}

// Issues the products of a stage for the 64 rows of the warpgroup.
template <class T, bool kLeftDeep, bool kRightDeep>
FT_DEVICE void MultiplyStage(const Stages& stages, int stage, float (&sums)[kSums]) {
  const int group = ConsumerThread() / kWarpgroup;
  const unsigned left = SharedAddressOf(stages.Left(stage)) + group * kPanelBytes;
  const unsigned right = SharedAddressOf(stages.Right(stage));
  FenceRegisters();
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    MultiplyShared<T, kLeftDeep, kRightDeep>(
        Descriptor(left + k * kDepthStep<kLeftDeep>, kPanelBytes),
        Descriptor(right + k * kDepthStep<kRightDeep>, kPanelBytes), sums);
  }
  CommitProducts();
}

FT_DEVICE void LoadPair(const float* at, float& first, float& second) {
  const auto words = *reinterpret_cast<const float2*>(at);
  first = words.x, second = words.y;
}
template <class C>
FT_DEVICE void LoadPair(const C* at, float& first, float& second) {
  UnpackPair<C>(*reinterpret_cast<const std::uint32_t*>(at), first, second);
}
FT_DEVICE void StorePair(float* at, float first, float second) {
  *reinterpret_cast<float2*>(at) = float2{first, second};
}
template <class C>
FT_DEVICE void StorePair(C* at, float first, float second) {
  *reinterpret_cast<std::uint32_t*>(at) = PackPair<C>(first, second);
}

// c (+)= the warpgroup's sums, from registers: the four lanes of a row write eight neighbours, 32
// bytes if c is fp32. `c` is the tile's first element.
template <class C>
FT_DEVICE void StoreSums(const float (&sums)[kSums], const Tile& tile, C* c, std::int64_t stride,
                         bool accumulate) {
  const int row = ConsumerThread() / kWarp * 16 + LaneOf() / 4, col = LaneOf() % 4 * 2;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    C* const to = c + (row + 8 * h) * stride + col;
    const int cols = row + 8 * h < tile.rows ? tile.cols : 0;
#pragma unroll
    for (int j = 0; j < kCols / 8; ++j) {
      if (8 * j + col >= cols) continue;
      float first = 0.0F, second = 0.0F;
      if (accumulate) LoadPair(to + 8 * j, first, second);
      StorePair(to + 8 * j, first + sums[4 * j + 2 * h], second + sums[4 * j + 2 * h + 1]);
    }
  }
}

FT_DEVICE void StoreTile(const FtGroupedGemm& g, const Tile& tile, const float (&sums)[kSums]) {
  const bool weight = g.mode == FT_GROUPED_WEIGHT;
  const std::int64_t stride = g.mode == FT_GROUPED_FORWARD ? g.out : g.in;
  const std::int64_t first = weight ? std::int64_t{tile.expert} * g.out * g.in : 0;
  void* const c = const_cast<char*>(Shifted(g.c, g.c_dtype, first + tile.row * stride + tile.col));
  const bool accumulate = g.accumulate != 0;
  if (g.c_dtype == FT_F32) {
    StoreSums(sums, tile, static_cast<float*>(c), stride, accumulate);
  } else if (g.c_dtype == FT_BF16) {
    StoreSums(sums, tile, static_cast<Bf16*>(c), stride, accumulate);
  } else {
    StoreSums(sums, tile, static_cast<Fp16*>(c), stride, accumulate);
  }
}

// A stage is free once the products of the next one have been issued and its own have ended.
template <class T, bool kLeftDeep, bool kRightDeep>
FT_DEVICE void MultiplyTiles(const FtGroupedGemm& g, const Stages& stages) {
  constexpr bool kWeight = !kLeftDeep;
  Turn turn;
  ForTiles<kWeight>(g, [&](const Tile& tile) {
    float sums[kSums] = {};
    int before = -1;  // the stage whose products are under way
    const auto free = [&] {
      if (before >= 0 && LaneOf() == 0) Arrive(stages.empty + before);
    };
    ForSteps<kWeight>(g, tile, [&](std::int64_t, int left) {
      AwaitPhase(stages.full + turn.stage, turn.parity);
      if (kWeight && left < kDepth) ClearPast(stages, turn.stage, left);
      MultiplyStage<T, kLeftDeep, kRightDeep>(stages, turn.stage, sums);
      AwaitProducts<1>();
      free();
      before = turn.stage;
      turn.Next();
    });
    AwaitProducts<0>();
    free();
    StoreTile(g, tile, sums);
  });
}

template <class T, bool kLeftDeep, bool kRightDeep>
__global__ void __launch_bounds__(kThreads, 1)
    WarpgroupExpertKernel(const __grid_constant__ TensorMap left,
                          const __grid_constant__ TensorMap right, FtGroupedGemm g) {
  extern __shared__ __align__(kPanelAtom) unsigned char ft_stages[];
  if (SharedAddressOf(ft_stages) % kPanelAtom != 0) __trap();
  auto* const barriers = reinterpret_cast<std::uint64_t*>(ft_stages + kStages * kStageBytes);
  const Stages stages{ft_stages, barriers, barriers + kStages};
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      InitBarrier(stages.full + i, 1);
      InitBarrier(stages.empty + i, kConsumers * kWarpgroup / kWarp);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    LowerRegisters<kCopyRegisters>();
    if (threadIdx.x < kWarp) CopyTiles<kLeftDeep, kRightDeep>(g, left, right, stages);
  } else {
    RaiseRegisters<kProductRegisters>();
    MultiplyTiles<T, kLeftDeep, kRightDeep>(g, stages);
  }
}

// ---- launches

// The most tiles that any lengths of runs can need; blocks without tiles return at once.
std::int64_t MostTiles(const FtGroupedGemm& g) {
  const auto tiles = [](std::int64_t n, int each) { return (n + each - 1) / each; };
  if (g.mode == FT_GROUPED_WEIGHT) return tiles(g.out, kRows) * tiles(g.in, kCols) * g.experts;
  return MostRunTiles(g, kRows) * tiles(g.mode == FT_GROUPED_FORWARD ? g.out : g.in, kCols);
}

template <class T, bool kLeftDeep, bool kRightDeep>
FtStatus Launch(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g) {
  const bool weight = g.mode == FT_GROUPED_WEIGHT, forward = g.mode == FT_GROUPED_FORWARD;
  const std::int64_t tiles = MostTiles(g);
  check.AtMost("tiles", tiles, 0x7fffffff);
  if (!check.ok() || tiles == 0) return check.status();
  TensorMap left, right;
  FtStatus status = MakeTensorMap(
      queue, "grouped_gemm",
      {g.a, g.dtype, forward ? g.in : g.out, g.rows, 1, kLeftDeep ? kRows : kDepth}, &left);
  if (status == FT_OK) {
    status = MakeTensorMap(queue, "grouped_gemm",
                           {g.b, g.dtype, g.in, weight ? g.rows : g.out, weight ? 1 : g.experts,
                            kRightDeep ? kCols : kDepth},
                           &right);
  }
  if (status != FT_OK) return status;
  const auto kernel = &WarpgroupExpertKernel<T, kLeftDeep, kRightDeep>;
  status = AllowShared(queue, "grouped_gemm", reinterpret_cast<const void*>(kernel), kSharedBytes);
  if (status != FT_OK) return status;
  const std::int64_t blocks = QueueOf(queue).multiprocessors;
  FT_LAUNCH(kernel, dim3(static_cast<unsigned>(tiles < blocks ? tiles : blocks)), dim3(kThreads),
            kSharedBytes, StreamOf(queue), left, right, g);
  return check.Launched();
}

template <class T>
FtStatus LaunchMode(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g) {
  if (g.mode == FT_GROUPED_FORWARD) return Launch<T, true, true>(queue, check, g);
  return g.mode == FT_GROUPED_INPUT ? Launch<T, true, false>(queue, check, g)
                                    : Launch<T, false, false>(queue, check, g);
}

}  // namespace

bool TakesWarpgroups(FtQueue* queue, const FtGroupedGemm& g) {
  return QueueOf(queue).warpgroups[FT_KERNEL_GROUPED_GEMM] && g.rows > 0 &&
         (reinterpret_cast<std::uintptr_t>(g.c) & 15U) == 0;
}

FtStatus WarpgroupGroupedGemm(FtQueue* queue, CudaCheck& check, const FtGroupedGemm& g) {
  return g.dtype == FT_BF16 ? LaunchMode<Bf16>(queue, check, g) : LaunchMode<Fp16>(queue, check, g);
}

}  // namespace foretrain
