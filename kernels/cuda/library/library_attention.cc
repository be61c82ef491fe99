#include "kernels/cuda/library/library_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "kernels/cuda/device/queue.h"
#include "kernels/cuda/library/cudnn_attention.h"
#include "kernels/cuda/own/attention/lse_rows.cuh"

namespace foretrain {
namespace {

constexpr std::int64_t kGrain = 256;  // alignment of the workspace's parts
constexpr int kMaxTries = 6;          // attempts with smaller and smaller pieces
constexpr std::int64_t kMaxDim = 128;
constexpr std::uintptr_t kAlignedTo = 16;

std::int64_t Rounded(std::int64_t bytes) { return (bytes + kGrain - 1) / kGrain * kGrain; }

// Identifies the calls that share a plan.
struct Key {
  std::int64_t batch, sequence, row_stride, heads, kv_heads, head_dim;
  FtDtype dtype;
  bool backward;

  bool operator==(const Key&) const = default;
};

template <class Arguments>
Key KeyOf(const Arguments& g, bool backward) {
  return {g.batch, g.sequence, g.row_stride, g.heads, g.kv_heads, g.head_dim, g.dtype, backward};
}

// Unit of one run: some samples, and the query heads of some key heads.
struct Piece {
  std::int64_t batch, kv_heads;
};

// Offsets of the workspace's parts in bytes; the plan's own part comes first.
struct Layout {
  std::int64_t lse, delta, dq_sum, end;
};
Layout LayoutOf(const Key& key, const Piece& piece, bool any_order, std::int64_t plan_bytes) {
  const std::int64_t heads = piece.kv_heads * (key.heads / key.kv_heads);
  const std::int64_t numbers = piece.batch * heads * key.sequence;
  const std::int64_t bytes = Rounded(numbers * std::int64_t{sizeof(float)});
  Layout at{};
  at.lse = Rounded(plan_bytes);
  at.delta = at.lse + bytes;
  at.dq_sum = at.delta + (key.backward ? bytes : 0);
  at.end = at.dq_sum + (key.backward && any_order
                            ? Rounded(numbers * key.head_dim * std::int64_t{sizeof(float)})
                            : 0);
  return at;
}

// A plan with the piece and workspace that it was made for.
struct Use {
  Key key{};
  bool any_order = false;
  Piece piece{};
  Layout layout{};
  std::unique_ptr<CudnnGraph> graph;
};

// Largest divisor of `of` up to `at_most`: pieces must be equal, because a plan has fixed sizes.
std::int64_t GreatestDivisor(std::int64_t of, std::int64_t at_most) {
  std::int64_t divisor = std::min(of, at_most);
  while (divisor > 1 && of % divisor != 0) --divisor;
  return divisor;
}

// Next smaller piece, at most `share` < 1 of this one: whole samples first, then key heads of one
// sample. `nullopt` if one key head of one sample is already the piece.
std::optional<Piece> Smaller(const Key& key, const Piece& piece, double share) {
  const std::int64_t units = piece.batch * piece.kv_heads;
  const std::int64_t wanted =
      std::min(units - 1, static_cast<std::int64_t>(static_cast<double>(units) * share));
  if (wanted < 1) return std::nullopt;
  if (wanted >= key.kv_heads) {
    return Piece{GreatestDivisor(key.batch, wanted / key.kv_heads), key.kv_heads};
  }
  return Piece{1, GreatestDivisor(key.kv_heads, wanted)};
}

CudnnAttention DescriptionOf(const Key& key, const Piece& piece) {
  return {.batch = piece.batch,
          .sequence = key.sequence,
          .row_stride = key.row_stride,
          .out_stride = key.heads * key.head_dim,
          .heads = piece.kv_heads * (key.heads / key.kv_heads),
          .kv_heads = piece.kv_heads,
          .head_dim = key.head_dim,
          .data = key.dtype == FT_BF16 ? CudnnData::kBf16 : CudnnData::kHalf};
}

}  // namespace

struct AttentionLibrary {
  CudnnApi api;
  CudnnHandle handle = nullptr;
  std::vector<Use> uses;
};

namespace {

FtStatus Refuse(FtQueue* queue, const char* why) {
  std::snprintf(QueueOf(queue).error, sizeof CudaQueue::error, "%s", why);
  return FT_UNSUPPORTED;
}

// Reason why the library is not used for the call; NULL if it is.
template <class Arguments>
const char* WhyNot(const CudaQueue& queue, const Arguments& g, bool is_ordered_backward) {
  if (g.dtype != FT_BF16 && g.dtype != FT_F16) return "cuDNN's attention is of bf16 and fp16";
  if (g.head_dim < 8 || g.head_dim > kMaxDim || g.head_dim % 8 != 0) {
    return "cuDNN's attention is asked for heads of multiples of 8 up to 128";
  }
  if (g.value_dim != 0 && g.value_dim != g.head_dim) {
    return "cuDNN's attention is asked for values as wide as keys";
  }
  if (g.window > 0 || g.softcap > 0.0F || g.alibi_heads > 0 || g.random.probability > 0.0F ||
      g.document_starts != nullptr) {
    return "cuDNN's attention is asked for neither windows, caps, slopes, documents nor dropout";
  }
  if (g.batch < 1 || g.sequence < 1 || g.heads < 1 || g.kv_heads < 1 || g.heads % g.kv_heads != 0 ||
      g.row_stride % 8 != 0) {
    return "cuDNN's attention is asked for rows of whole 16-byte words, and for key heads that "
           "query heads share evenly";
  }
  if (queue.capability < 80) return "cuDNN's attention needs compute capability 8.0";
  if (is_ordered_backward && queue.capability >= 100) {
    return "cuDNN's backward in a fixed order is asked for on compute capabilities 8.0 to 9.0";
  }
  return nullptr;
}

// Plans the largest piece whose workspace fits. Each attempt shrinks the piece in proportion to the
// overshoot.
FtStatus Prepare(FtQueue* queue, AttentionLibrary& library, Use& use) {
  Piece piece{use.key.batch, use.key.kv_heads};
  for (int i = 0; i < kMaxTries; ++i) {
    auto graph = std::make_unique<CudnnGraph>(library.api);
    const CudnnAttention description = DescriptionOf(use.key, piece);
    if (use.key.backward) {
      DescribeBackward(*graph, description, use.any_order);
    } else {
      DescribeForward(*graph, description);
    }
    if (!graph->Plan({library.handle, nullptr})) return Refuse(queue, graph->why().c_str());
    const Layout layout = LayoutOf(use.key, piece, use.any_order, graph->workspace_bytes());
    const std::int64_t room = QueueOf(queue).attention_bytes;
    if (layout.end <= room) {
      use.piece = piece, use.layout = layout, use.graph = std::move(graph);
      return FT_OK;
    }
    const std::optional<Piece> smaller =
        Smaller(use.key, piece, static_cast<double>(room) / static_cast<double>(layout.end));
    if (!smaller) break;
    piece = *smaller;
  }
  return Refuse(queue,
                "cuDNN's attention needs more than a queue's workspace of 64 MiB for one "
                "key head of one sample");
}

// Loads the library and creates the handle on first use, so that runs without it pay nothing.
FtStatus HaveHandle(FtQueue* queue) {
  CudaQueue& q = QueueOf(queue);
  if (q.attention == nullptr) {
    const FtStatus status = MakeAttentionLibrary(kCudnnFile, &q.attention, q.error, sizeof q.error);
    if (status != FT_OK) return status;
  }
  AttentionLibrary& library = *q.attention;
  if (library.handle != nullptr) return FT_OK;
  int status = library.api.cudnnCreate(&library.handle);
  if (status != kCudnnSuccess) {
    library.handle = nullptr;
    return Refuse(queue, CudnnReason(library.api, status, "make a handle").c_str());
  }
  status = library.api.cudnnSetStream(library.handle, q.stream);
  if (status == kCudnnSuccess) return FT_OK;
  const std::string why = CudnnReason(library.api, status, "give it the queue's stream");
  static_cast<void>(library.api.cudnnDestroy(library.handle));
  library.handle = nullptr;
  return Refuse(queue, why.c_str());
}

// The old plan stays until a new one exists: if planning fails, nothing changes.
template <class Arguments>
FtStatus UseKernels(FtQueue* queue, const Arguments& g, bool backward, FtAttentionKernels kernels) {
  CudaQueue& q = QueueOf(queue);
  if (const FtStatus status = UseDevice(queue); status != FT_OK) return status;
  const Key key = KeyOf(g, backward);
  const auto forget = [&] {
    if (q.attention == nullptr) return;
    std::erase_if(q.attention->uses, [&](const Use& use) { return use.key == key; });
  };
  if (kernels == FT_ATTENTION_OWN) {
    forget();
    return FT_OK;
  }
  const bool any_order = kernels == FT_ATTENTION_LIBRARY_ANY_ORDER;
  if (const char* const why = WhyNot(q, g, backward && !any_order)) return Refuse(queue, why);
  if (const FtStatus status = HaveHandle(queue); status != FT_OK) return status;
  if (const FtStatus status = ReserveWorkspace(queue); status != FT_OK) return status;
  for (const Use& use : q.attention->uses) {
    if (use.key == key && (use.any_order == any_order || !backward)) return FT_OK;
  }
  Use use;
  use.key = key, use.any_order = any_order;
  if (const FtStatus status = Prepare(queue, *q.attention, use); status != FT_OK) return status;
  forget();
  q.attention->uses.push_back(std::move(use));
  return FT_OK;
}

// Called per attention launch, so it returns early if the library was never asked for.
template <class Arguments>
Use* FindUse(FtQueue* queue, const Arguments& g, bool backward) {
  AttentionLibrary* const library = QueueOf(queue).attention;
  if (library == nullptr || library->uses.empty()) return nullptr;
  const CudaQueue& q = QueueOf(queue);
  if (WhyNot(q, g, false) != nullptr) return nullptr;
  const Key key = KeyOf(g, backward);
  for (Use& use : library->uses) {
    if (use.key == key) return &use;
  }
  return nullptr;
}

bool AreAligned(std::initializer_list<const void*> pointers) {
  return std::all_of(pointers.begin(), pointers.end(), [](const void* at) {
    return reinterpret_cast<std::uintptr_t>(at) % kAlignedTo == 0;
  });
}

// Offsets of a piece in the tensors of a call, for its first sample and key head.
struct Places {
  std::int64_t query, key, output;  // first query head
  std::int64_t head;                // query head
};
Places PlacesOf(const Key& key, std::int64_t sample, std::int64_t kv_head) {
  constexpr std::int64_t kBytes = 2;  // per 16-bit value
  const std::int64_t head = kv_head * (key.heads / key.kv_heads), row = sample * key.sequence;
  return {(row * key.row_stride + head * key.head_dim) * kBytes,
          (row * key.row_stride + kv_head * key.head_dim) * kBytes,
          (row * key.heads + head) * key.head_dim * kBytes, head};
}

void* At(const void* tensor, std::int64_t bytes) {
  return static_cast<std::byte*>(const_cast<void*>(tensor)) + bytes;
}

// Calls run(places, lse) for each piece, one after the other on the queue's stream; they share the
// workspace.
template <class Run>
FtStatus ForPieces(FtQueue* queue, const Use& use, float* lse, const Run& run) {
  const Key& key = use.key;
  std::byte* const workspace = QueueOf(queue).workspace;
  for (std::int64_t sample = 0; sample < key.batch; sample += use.piece.batch) {
    for (std::int64_t kv_head = 0; kv_head < key.kv_heads; kv_head += use.piece.kv_heads) {
      const Places places = PlacesOf(key, sample, kv_head);
      const LseRows rows{lse,          reinterpret_cast<float*>(workspace + use.layout.lse),
                         sample,       use.piece.batch,
                         key.sequence, key.heads,
                         places.head,  use.piece.kv_heads * (key.heads / key.kv_heads)};
      if (const FtStatus status = run(places, rows); status != FT_OK) return status;
    }
  }
  return FT_OK;
}

// Values passed by value; the library reads them during the call.
struct Numbers {
  float scale, nothing = -std::numeric_limits<float>::infinity(), one = 1.0F;
};
template <class Arguments>
Numbers NumbersOf(const Arguments& g) {
  return {g.scale > 0.0F ? g.scale : 1.0F / std::sqrt(static_cast<float>(g.head_dim))};
}

// Runs a plan; a failure becomes the queue's error.
FtStatus RunGraph(FtQueue* queue, const Use& use, std::span<const CudnnBinding> bindings) {
  CudaQueue& q = QueueOf(queue);
  if (use.graph->Run(q.attention->handle, bindings, q.workspace)) return FT_OK;
  std::snprintf(q.error, sizeof q.error, "cuda attention: %s", use.graph->why().c_str());
  return FT_FAILED;
}

}  // namespace

FtStatus MakeAttentionLibrary(const char* file, AttentionLibrary** out, char* why, std::size_t n) {
  *out = nullptr;
  CudnnApi api;
  if (const FtStatus status = LoadCudnn(file, &api, why, n); status != FT_OK) return status;
  *out = new (std::nothrow) AttentionLibrary;
  if (*out == nullptr) {
    std::snprintf(why, n, "cuda: no host memory for attention's library");
    return FT_OUT_OF_MEMORY;
  }
  (*out)->api = api;
  return FT_OK;
}

void DestroyAttentionLibrary(AttentionLibrary* library) {
  if (library == nullptr) return;
  library->uses.clear();
  if (library->handle != nullptr) static_cast<void>(library->api.cudnnDestroy(library->handle));
  delete library;
}

FtStatus NameAttentionLibrary(char* name, std::size_t n, char* why, std::size_t why_n) {
  CudnnApi api;
  if (const FtStatus status = LoadCudnn(kCudnnFile, &api, why, why_n); status != FT_OK) {
    return status;
  }
  std::snprintf(name, n, "cudnn-%zu", api.cudnnGetVersion());
  return FT_OK;
}

FtStatus UseAttentionForward(FtQueue* queue, const FtAttentionForward* g,
                             FtAttentionKernels kernels) {
  return UseKernels(queue, *g, false, kernels);
}
FtStatus UseAttentionBackward(FtQueue* queue, const FtAttentionBackward* g,
                              FtAttentionKernels kernels) {
  return UseKernels(queue, *g, true, kernels);
}

// Returns false if own kernels must run the call: no plan for it, or tensors not aligned to 16
// bytes.
bool LibraryAttentionForward(FtQueue* queue, const FtAttentionForward& g, FtStatus* status) {
  const Use* const use = FindUse(queue, g, false);
  if (use == nullptr || !AreAligned({g.q, g.k, g.v, g.out})) return false;
  Numbers numbers = NumbersOf(g);
  *status = ForPieces(queue, *use, g.lse, [&](const Places& at, const LseRows& lse) {
    const CudnnBinding bindings[] = {
        {cudnn_id::kQ, At(g.q, at.query)},     {cudnn_id::kK, At(g.k, at.key)},
        {cudnn_id::kV, At(g.v, at.key)},       {cudnn_id::kOut, At(g.out, at.output)},
        {cudnn_id::kLse, lse.packed},          {cudnn_id::kScale, &numbers.scale},
        {cudnn_id::kNothing, &numbers.nothing}};
    const FtStatus ran = RunGraph(queue, *use, bindings);
    return ran != FT_OK ? ran : UnpackLse(queue, lse);
  });
  return true;
}

// lse is packed into the workspace for each piece, because cuDNN wants it by head.
bool LibraryAttentionBackward(FtQueue* queue, const FtAttentionBackward& g, FtStatus* status) {
  const Use* const use = FindUse(queue, g, true);
  if (use == nullptr || !AreAligned({g.q, g.k, g.v, g.out, g.dout, g.dq, g.dk, g.dv})) {
    return false;
  }
  Numbers numbers = NumbersOf(g);
  std::byte* const workspace = QueueOf(queue).workspace;
  *status =
      ForPieces(queue, *use, const_cast<float*>(g.lse), [&](const Places& at, const LseRows& lse) {
        if (const FtStatus packed = PackLse(queue, lse); packed != FT_OK) return packed;
        std::vector<CudnnBinding> bindings{{cudnn_id::kQ, At(g.q, at.query)},
                                           {cudnn_id::kK, At(g.k, at.key)},
                                           {cudnn_id::kV, At(g.v, at.key)},
                                           {cudnn_id::kOut, At(g.out, at.output)},
                                           {cudnn_id::kDout, At(g.dout, at.output)},
                                           {cudnn_id::kLse, lse.packed},
                                           {cudnn_id::kDq, At(g.dq, at.query)},
                                           {cudnn_id::kDk, At(g.dk, at.key)},
                                           {cudnn_id::kDv, At(g.dv, at.key)},
                                           {cudnn_id::kDelta, workspace + use->layout.delta},
                                           {cudnn_id::kScale, &numbers.scale},
                                           {cudnn_id::kNothing, &numbers.nothing},
                                           {cudnn_id::kOne, &numbers.one}};
        if (use->any_order) bindings.push_back({cudnn_id::kDqSum, workspace + use->layout.dq_sum});
        return RunGraph(queue, *use, bindings);
      });
  return true;
}

}  // namespace foretrain
