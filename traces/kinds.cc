#include "traces/kinds.h"

#include <cstddef>

#include "base/result.h"
#include "traces/unknown_coordinates.h"

namespace foretrain {
namespace {

// Names in the order of the enums. They are part of the store's schema and of exported traces.
constexpr std::array<std::string_view, kQueueCount> kQueueNames = {
    "host",   "compute", "tp",     "cp",  "ep",  "gather", "reduce", "send+1",
    "send-1", "recv+1",  "recv-1", "h2d", "d2h", "nvme",   "cpu",
};
constexpr std::array<std::string_view, kCategoryCount> kCategoryNames = {
    "parameters", "gradients",     "master_weights", "optimizer_state", "activations",
    "recompute",  "communication", "workspace",      "logits",          "staging",
};
constexpr std::array<std::string_view, kSpaceCount> kSpaceNames = {"device", "pinned", "host",
                                                                   "nvme"};
constexpr std::array<std::string_view, kOpClassCount> kOpClassNames = {
    "gemm",    "attention", "memory_bound", "tp_comm", "cp_comm",
    "ep_comm", "dp_comm",   "pp_comm",      "copy",    "host",
};
constexpr std::array<std::string_view, kPassCount> kPassNames = {
    "none", "forward", "backward", "backward_input", "backward_weight", "recompute", "update",
};
constexpr std::array<std::string_view, kInstructionKindCount> kInstructionKindNames = {
    "block",          "load_batch", "send",          "recv",        "all_reduce",
    "reduce_scatter", "all_gather", "scalar_reduce", "norm",        "optimizer_step",
    "amend",          "keep",       "copy_in",       "copy_out",    "nvme_read",
    "nvme_write",     "host_read",  "accumulate",    "head_reduce", "balance",
};

// Checked, because an enum value may come from a cast.
template <class E, std::size_t N>
std::string_view NameIn(const std::array<std::string_view, N>& names, E value) {
  const auto index = static_cast<std::size_t>(value);
  FT_CHECK(index < N);
  return names[index];
}

// A linear search: the lists have at most 20 names.
template <class E, std::size_t N>
std::optional<E> FindIn(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// Widths of the fields of an id, from the lowest bits up.
constexpr int kOpBits = 12;
constexpr int kPartBits = 12;
constexpr int kMicroBatchBits = 18;
constexpr int kBlockBits = 13;
constexpr int kPassBits = 3;
constexpr int kKindBits = 5;
constexpr int kPartShift = kOpBits;
constexpr int kMicroBatchShift = kPartShift + kPartBits;
constexpr int kBlockShift = kMicroBatchShift + kMicroBatchBits;
constexpr int kPassShift = kBlockShift + kBlockBits;
constexpr int kKindShift = kPassShift + kPassBits;
static_assert(kKindShift + kKindBits == 63);

// The fields fill 63 bits, so that ids are non-negative int64_t (see kinds.h).
constexpr bool Fits(int value, int bits) { return value >= 0 && value < (1 << bits); }

constexpr int Field(OpId id, int shift, int bits) {
  return static_cast<int>((id >> shift) & ((OpId{1} << bits) - 1));
}

bool IsCollective(InstructionKind kind) {
  return kind == InstructionKind::kAllReduce || kind == InstructionKind::kReduceScatter ||
         kind == InstructionKind::kAllGather;
}

// True for instructions whose block is meaningful even if it is 0.
bool NamesBlock(InstructionKind kind) {
  return kind == InstructionKind::kBlock || kind == InstructionKind::kSend ||
         kind == InstructionKind::kRecv || kind == InstructionKind::kCopyIn ||
         kind == InstructionKind::kCopyOut || kind == InstructionKind::kNvmeRead ||
         kind == InstructionKind::kNvmeWrite || kind == InstructionKind::kAccumulate ||
         kind == InstructionKind::kHeadReduce || kind == InstructionKind::kBalance;
}

// The same for the micro-batch.
bool NamesMicroBatch(InstructionKind kind) {
  return NamesBlock(kind) || kind == InstructionKind::kLoadBatch;
}

// Block 0 is the embedding, blocks 1 to `layers` are the layers, and the head follows. Without the
// number of layers a block is only a number.
std::string BlockText(int block, std::optional<int> layers) {
  if (layers.has_value()) {
    if (block == 0) return "embedding";
    if (block <= *layers) return "layer " + std::to_string(block);
    if (block == *layers + 1) return "head";
  }
  return "block " + std::to_string(block);
}

// Lists only the coordinates that mean something for the kind. Imported ops with an unknown
// micro-batch show their call number instead.
std::string DescribeKey(const InstructionKey& key, std::optional<int> layers) {
  std::string text;
  const auto add = [&text](std::string_view word) {
    if (!text.empty()) text += ' ';
    text += word;
  };
  if (key.kind != InstructionKind::kBlock) add(Name(key.kind));
  if (key.pass != Pass::kNone) add(Name(key.pass));
  if (!IsMicroBatchKnown(key)) {
    if (IsBlockKnown(key)) add(BlockText(key.block, layers));
    add("call " + std::to_string(key.micro_batch - kUnknownMicroBatch));
    return text;
  }
  if (NamesBlock(key.kind) || key.block != 0) add(BlockText(key.block, layers));
  if (NamesMicroBatch(key.kind) || key.micro_batch != 0) {
    add("mb " + std::to_string(key.micro_batch));
  }
  if (IsCollective(key.kind) || key.part != 0) {
    add((IsCollective(key.kind) ? "bucket " : "part ") + std::to_string(key.part));
  }
  return text;
}

std::string DescribeId(OpId id, std::optional<int> layers) {
  if (id == kNoOp) return "no op";
  if (!IsValidId(id)) return "invalid op " + std::to_string(id);
  const InstructionKey key = UnpackId(id);
  std::string text = DescribeKey(key, layers);
  if (!IsMicroBatchKnown(key)) return text;
  if (OpNumber(id) != kWholeInstruction) text += " op " + std::to_string(OpNumber(id));
  return text;
}

}  // namespace

std::string_view Name(Queue queue) { return NameIn(kQueueNames, queue); }
std::string_view Name(Category category) { return NameIn(kCategoryNames, category); }
std::string_view Name(Space space) { return NameIn(kSpaceNames, space); }
std::string_view Name(OpClass op_class) { return NameIn(kOpClassNames, op_class); }
std::string_view Name(Pass pass) { return NameIn(kPassNames, pass); }
std::string_view Name(InstructionKind kind) { return NameIn(kInstructionKindNames, kind); }

std::optional<Queue> ParseQueue(std::string_view name) { return FindIn<Queue>(kQueueNames, name); }
std::optional<Category> ParseCategory(std::string_view name) {
  return FindIn<Category>(kCategoryNames, name);
}
std::optional<Space> ParseSpace(std::string_view name) { return FindIn<Space>(kSpaceNames, name); }
std::optional<OpClass> ParseOpClass(std::string_view name) {
  return FindIn<OpClass>(kOpClassNames, name);
}
std::optional<Pass> ParsePass(std::string_view name) { return FindIn<Pass>(kPassNames, name); }

// Every field is checked: an overflow would silently give another op's id.
OpId PackId(const InstructionKey& key, int op) {
  FT_CHECK(static_cast<int>(key.kind) < kInstructionKindCount);
  FT_CHECK(static_cast<int>(key.pass) < kPassCount);
  FT_CHECK(Fits(key.block, kBlockBits));
  FT_CHECK(Fits(key.micro_batch, kMicroBatchBits));
  FT_CHECK(Fits(key.part, kPartBits));
  FT_CHECK(Fits(op, kOpBits));
  return static_cast<OpId>(key.kind) << kKindShift | static_cast<OpId>(key.pass) << kPassShift |
         static_cast<OpId>(key.block) << kBlockShift |
         static_cast<OpId>(key.micro_batch) << kMicroBatchShift |
         static_cast<OpId>(key.part) << kPartShift | static_cast<OpId>(op);
}

// The other fields use all values of their bits, so only kind and pass can be out of range.
bool IsValidId(OpId id) {
  return id >= 0 && Field(id, kKindShift, kKindBits) < kInstructionKindCount &&
         Field(id, kPassShift, kPassBits) < kPassCount;
}

InstructionKey UnpackId(OpId id) {
  FT_CHECK(IsValidId(id));
  InstructionKey key;
  key.kind = static_cast<InstructionKind>(Field(id, kKindShift, kKindBits));
  key.pass = static_cast<Pass>(Field(id, kPassShift, kPassBits));
  key.block = Field(id, kBlockShift, kBlockBits);
  key.micro_batch = Field(id, kMicroBatchShift, kMicroBatchBits);
  key.part = Field(id, kPartShift, kPartBits);
  return key;
}

std::string Describe(OpId id) { return DescribeId(id, std::nullopt); }

std::string Describe(OpId id, int layers) { return DescribeId(id, layers); }

}  // namespace foretrain
