// The lists of queues, memory categories, spaces and op classes, and the ids that join a predicted
// span to its measured counterpart. Ops are defined in sim/program/ir/op.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foretrain {

// A FIFO of ops on one rank. `kHost` issues work; `kCompute` runs the model's arithmetic; `kCpu`
// runs updates of offloaded state on the host's processors.
enum class Queue : std::uint8_t {
  kHost,
  kCompute,
  kTp,
  kCp,
  kEp,
  kGather,
  kReduce,
  kSendNext,
  kSendPrev,
  kRecvNext,
  kRecvPrev,
  kH2d,
  kD2h,
  kNvme,
  kCpu,
};
inline constexpr int kQueueCount = 15;

// Purpose of a buffer. A rank's memory is the sum over the categories.
enum class Category : std::uint8_t {
  kParameters,
  kGradients,
  kMasterWeights,
  kOptimizerState,
  kActivations,
  kRecompute,
  kCommunication,
  kWorkspace,
  kLogits,
  kStaging,
};
inline constexpr int kCategoryCount = 10;

// Location of a buffer.
enum class Space : std::uint8_t { kDevice, kPinned, kHost, kNvme };
inline constexpr int kSpaceCount = 4;

// Kind of work of an op. Metrics and gap attribution sum over these classes.
enum class OpClass : std::uint8_t {
  kGemm,
  kAttention,
  kMemoryBound,
  kTpComm,
  kCpComm,
  kEpComm,
  kDpComm,
  kPpComm,
  kCopy,
  kHost,
};
inline constexpr int kOpClassCount = 10;

constexpr bool IsCompute(OpClass c) { return c <= OpClass::kMemoryBound; }
constexpr bool IsCommunication(OpClass c) { return c >= OpClass::kTpComm && c <= OpClass::kPpComm; }

enum class Pass : std::uint8_t {
  kNone,
  kForward,
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  kRecompute,
  kUpdate
};
inline constexpr int kPassCount = 7;

// Kind of an instruction. kBlock runs one pass of one block for one micro-batch.
enum class InstructionKind : std::uint8_t {
  kBlock,
  kLoadBatch,
  kSend,
  kRecv,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kScalarReduce,
  kNorm,
  kOptimizerStep,
  kAmend,    // correction of an update: scales or undoes it after the global norm is known
  kKeep,     // keeps older parameters
  kCopyIn,   // to the device
  kCopyOut,  // from the device
  kNvmeRead,
  kNvmeWrite,
  kHostRead,
  kAccumulate,  // on the host's processors
  kHeadReduce,  // reduces gradients of key and value heads that several ranks hold
  kBalance,     // updates the biases of a router's choice
};
inline constexpr int kInstructionKindCount = 20;

// Short lower-case names, the same in JSON, the store, SQL views and the screen.
std::string_view Name(Queue queue);
std::string_view Name(Category category);
std::string_view Name(Space space);
std::string_view Name(OpClass op_class);
std::string_view Name(Pass pass);
std::string_view Name(InstructionKind kind);

// The value whose Name() is `name`; `nullopt` if there is none.
std::optional<Queue> ParseQueue(std::string_view name);
std::optional<Category> ParseCategory(std::string_view name);
std::optional<Space> ParseSpace(std::string_view name);
std::optional<OpClass> ParseOpClass(std::string_view name);
std::optional<Pass> ParsePass(std::string_view name);

// Identity of an instruction, independent of its position: equal in every schedule, on every rank
// and in simulator and runtime.
struct InstructionKey {
  InstructionKind kind = InstructionKind::kBlock;
  Pass pass = Pass::kNone;
  int block = 0;        // model block: 0 embedding, 1..L decoder layers, L+1 head; [0, 8192)
  int micro_batch = 0;  // [0, 2^18)
  int part = 0;         // bucket, peer or piece; [0, 4096)

  bool operator==(const InstructionKey&) const = default;
};

// Layout: kind 5, pass 3, block 13, micro-batch 18, part 12, op 12 bits: 63 in all, so ids are
// non-negative int64_t. An instruction's own id has op 4095; an op's id has its number in the
// instruction, [0, 4095).
using OpId = std::int64_t;
inline constexpr int kWholeInstruction = 4095;
inline constexpr OpId kNoOp = -1;

// The id of op `op` in [0, 4095] of the instruction. Fields outside the ranges above are a bug: the
// compiler refuses programs that exceed them.
OpId PackId(const InstructionKey& key, int op = kWholeInstruction);

// True if PackId can have made `id`. Test ids read from a file with it first.
bool IsValidId(OpId id);

// The instruction of `id`, which must be valid.
InstructionKey UnpackId(OpId id);

constexpr int OpNumber(OpId id) { return static_cast<int>(id & 0xFFF); }
constexpr OpId InstructionOf(OpId id) { return id | 0xFFF; }

// Text of an id: "forward block 3 mb 2" or, for an op, "forward block 3 mb 2 op 5". Names are made
// when shown and not stored in spans. Any value is safe: kNoOp is "no op", other invalid ids are
// "invalid op N".
std::string Describe(OpId id);

// As above for a model of `layers` decoder layers: block 0 is "embedding", blocks 1 to `layers` are
// "layer b", block layers + 1 is "head".
std::string Describe(OpId id, int layers);

}  // namespace foretrain
