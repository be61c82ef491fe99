// A compiled plan: for each rank, the instructions of one training step in issue order, their
// tensors and their order. The simulator and the runtime execute the same Program. docs/program.md
// has the format with worked listings.
//
//   Program ── blocks[]           templates, shared by all ranks
//           └─ ranks[] ── step[]      instructions in issue order; each names a block and bindings
//                      ├─ bindings[]  slot -> (buffer, byte offset, bytes), one run an instruction
//                      ├─ buffers[]   bytes, category, space; Link fills in life and offset
//                      └─ edges[]     between ops of different queues, by Link
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/ir/groups.h"
#include "sim/program/ir/op.h"
#include "traces/kinds.h"

namespace foretrain {

// Scope of a persistent buffer: the whole run, one step, or one micro-batch. Verify refuses reads
// from outside that scope.
enum class Holds : std::uint8_t { kState, kStep, kMicroBatch };

// One allocation of a rank. A persistent buffer holds state: it lives for the whole run, across
// steps, and is zero or loaded before the first step. Any other buffer lives, in issue order, from
// its first writer to its last access within one step.
struct Buffer {
  std::int64_t bytes = 0;
  Category category = Category::kWorkspace;
  Space space = Space::kDevice;
  bool persistent = false;
  NumberFormat format = NumberFormat::kFp32;  // of its numbers, if they are all alike
  Holds holds = Holds::kState;                // scope of a persistent buffer
  std::int64_t offset = -1;    // in the arena of its space, 256-byte aligned; set by Link
  std::int32_t first_op = -1;  // op numbers of the rank's step, first to last access; set by Link
  std::int32_t last_op = -1;
};

// A tensor of an instruction: a byte range of a buffer. bytes == 0: an optional operand that is
// absent.
struct Binding {
  std::int32_t buffer = -1;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct Instruction {
  InstructionKey key;
  std::int32_t block = 0;          // into Program::blocks
  std::int32_t first_binding = 0;  // into RankProgram::bindings, one per slot of the block
  std::int32_t first_op = 0;       // number of its first op in the rank's step; set by Link
  std::int32_t after =
      -1;  // its first op waits for all ops of this earlier instruction of the step; -1: none
  // Belongs to the next step's batch. A run of n steps then executes the list n + 1 times: the
  // first round runs only these instructions, the last round everything else. Instructions that are
  // left out still wait for their edges, so that all orders hold.
  bool for_next_step = false;
};

// Op `to` waits for op `from` to have ended `distance` steps earlier (0 or 1). Op numbers count
// through the rank's step.
struct Edge {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t distance = 0;
};

// A parameter tensor of one rank: its place, and the part of the model's tensor that it is.
struct ParameterPlace {
  std::string name;       // "layers.3.attention.qkv.weight"
  std::int64_t rows = 0;  // of the whole tensor; a vector has rows == 1
  std::int64_t cols = 0;
  std::int64_t row_begin = 0;  // the part that this rank computes with (tensor parallelism)
  std::int64_t row_end = 0;
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;
  std::int32_t bucket = 0;  // index into RankProgram::buckets
  std::int64_t offset = 0;  // elements from the start of the bucket
  bool decays = false;      // a matrix; Plan::decay may say otherwise
  bool replicated = false;  // held in full by every tp rank
  std::int32_t copies = 1;  // tensor-parallel ranks that hold this part (heads of keys and values)
  // For a part of a tensor in 4 bits (blocks/packed_tensors.h): the tensor's elements on this rank,
  // and those before this part. 0: elements are not packed. `offset` is then that of the tensor, in
  // bytes.
  std::int64_t packed_elements = 0;
  std::int64_t packed_first = 0;
  bool counted = true;  // this rank's copy enters the gradient norm
};

// Parameters that are reduced, updated and gathered together, as one flat range.
struct Bucket {
  std::int64_t elements = 0;                   // padded to a multiple of 16 * shards
  std::int64_t used = 0;                       // elements that hold parameters
  std::int64_t decayed = 0;                    // leading elements that weight decay applies to
  std::int32_t tensors = 0;                    // parameters that it holds
  NumberFormat weights = NumberFormat::kFp32;  // format of `parameters`
  NumberFormat sums = NumberFormat::kFp32;     // format of `gradients`
  bool frozen = false;                         // not trained: it has parameters only
  bool orthogonal = false;                     // matrices that Muon updates
  bool factored = false;                       // tensors that Adafactor updates
  bool unsharded = false;        // parameters are whole, unlike those of sharded buckets
  bool experts = false;          // distributed by expert parallelism: shared by kExpertDp alone
  std::int32_t shards = 1;       // ranks that share its optimizer state
  std::int32_t shard = 0;        // this rank's part: [shard, shard + 1) * elements / shards
  std::int32_t parameters = -1;  // buffer: whole, or this rank's shard under ZeRO-3
  std::int32_t gradients = -1;   // buffer: whole, or the shard
  std::int32_t moment1 = -1;     // buffer: the shard's, in the plan's format; -1 if there is none
  std::int32_t moment2 = -1;
  std::int32_t absmax1 = -1;  // buffer: scales of 8-bit moments; -1 if there are none
  std::int32_t absmax2 = -1;
  std::vector<std::int32_t> older;  // buffers: older parameters, for micro-batches in flight
  std::int32_t average = -1;  // buffer: the shard's moving average in fp32; -1 if there is none
  std::int32_t master = -1;  // buffer: the fp32 shard that the update works on; -1 if there is none
};

struct RankProgram {
  int rank = 0;  // RankOf(plan, Coordinates())
  int dp = 0;
  int cp = 0;
  int tp = 0;
  int pp = 0;
  std::vector<Instruction> step;
  std::vector<Binding> bindings;
  std::vector<Buffer> buffers;
  std::vector<Edge> edges;  // sorted by (to, from)
  std::vector<Bucket> buckets;
  std::vector<ParameterPlace> parameters;
  std::array<std::int32_t, kGroupKindCount>
      groups{};  // index into Program::groups by kind; -1: not a member
  std::array<std::int64_t, kSpaceCount> arena_bytes{};  // set by Link
  std::int32_t op_count = 0;                            // set by Link

  RankCoordinates Coordinates() const { return {pp, dp, cp, tp}; }
  // Whether some instruction belongs to the next step's batch.
  bool WorksForNextStep() const;
};

struct Program {
  ModelSpec model;
  Plan plan;
  std::vector<Block> blocks;
  std::vector<std::vector<int>>
      groups;  // members in ascending rank order; kNext and kPrev: the pair {lower, upper}
  std::vector<RankProgram> ranks;  // all of them, or representatives (docs/program.md)
  // By rank of the plan: the rank in `ranks` that represents it. Empty if `ranks` has all.
  std::vector<std::int32_t> stands_for;
  std::uint64_t hash = 0;  // of instructions, blocks and layout; identifies a forecast with its run
};

// Whether any rank works for the next step too, so that steps overlap.
bool StepsOverlap(const Program& program);

// Appends an instruction to the rank's step, with one binding per slot of `block`.
Instruction& AppendInstruction(RankProgram& rank, const InstructionKey& key, std::int32_t block,
                               const std::vector<Binding>& bindings);

// Position of a compiled op in a rank's step.
struct OpRef {
  std::int32_t instruction = 0;
  std::int32_t op = 0;  // in the block
};

const Op& OpAt(const Program& program, const RankProgram& rank, OpRef ref);

// For each op number of the rank's step, its instruction and op. Needs Link's first_op.
std::vector<OpRef> OpRefs(const Program& program, const RankProgram& rank);

// Binding of operand `i` of the op; bytes == 0 if it is absent.
Binding OperandBinding(const Program& program, const RankProgram& rank, OpRef ref, int i);

// Id of the op; the same in every run of the program.
OpId IdOf(const RankProgram& rank, OpRef ref);

// Readable listing of a rank's step: one line per instruction or, with `ops`, one per op with
// queue, tensors and edges.
std::string Listing(const Program& program, int rank_index, bool ops);

// ---- the steps of Compile, each usable alone ----

// Selects the ranks of each stage that a program contains.
enum class RankChoice : std::uint8_t {
  kAll,
  // One rank of each class that a simulation cannot tell apart; kFirst if they are too many
  // (lower/rank/rank_class.h).
  kClasses,
  kFirst,  // the first of each stage: others may differ in padding and in pieces of the norm
};

struct CompileOptions {
  RankChoice ranks = RankChoice::kAll;
};

// Compiles a model and a plan to a linked and verified Program.
//   Errors: kInvalidArgument from ValidateModel and ValidatePlan; kUnsupported if no pass lowers
//   a feature; never kInfeasible.
Result<Program> Compile(const ModelSpec& model, const Plan& plan,
                        const CompileOptions& options = {});

// Compiles the forward passes of `training`'s plan and the reduction of their loss, for the same
// ranks. Nothing is dropped out, saved for a backward or updated. All state has the same numbers
// and addresses as in `training`, so both programs run in the same arenas, one after the other:
// `training`'s arenas grow if this needs more.
//
//   training  of Compile, with any ranks
//
// Errors: those of Compile; kUnsupported, a plan whose steps overlap, or routers with balanced
// biases.
Result<Program> CompileEvaluation(Program& training);

// Computes op numbers, buffer lifetimes and arena offsets (link/layout.h; 256-byte aligned), then
// the edges between ops of different queues, from reads and writes of byte ranges over two
// consecutive steps, and the hash. Idempotent.
//
// Buffers of all queues share memory. If the waits that this creates deadlock between ranks, the
// whole program is laid out again with less sharing and more memory. Under the strictest rule no op
// waits for memory. A deadlock that remains is the program's own and Verify refuses it. Requires
// existing blocks, bindings and buffers (FT_CHECK). About 0.5 us per op.
void Link(Program& program);

// The host issues op n, counted through all steps, once op n - kRunAheadOps has ended
// (transfer_queues.h).
inline constexpr int kRunAheadOps = 1024;

// Checks everything that every executor relies on. Refuses with kInvalidArgument and names the
// cycle of waits or the pair of ops that breaks a rule.
//
//   program        linked
//   run_ahead_ops  > 0; smaller ones are for tests of the check
//
//   - instructions, bindings and edges lie in their tables, and ids are unique in a rank's step
//   - copies touch the spaces they name, ops on the queue cpu the host's memory, others the
//     device's
//   - each (block, micro-batch) has a forward and then either a backward or both halves, input half
//     first (block 0 may have its weight half alone); a recomputation lies between. A program
//     without any backward is an evaluation, and has forwards alone
//   - sends and receives pair up with equal bytes; all members of a group issue its collectives in
//     the same order
//   - buffers that live at the same time do not overlap, and nothing is read that the step has not
//     written, except state
//   - if steps overlap, partners work for the same step, and a buffer of a step or a micro-batch is
//     read only by that step or micro-batch
//   - two consecutive steps run to their end: no cycle of queues, edges, partners and run-ahead
//   - of two ops that touch the same bytes, at least one writing, a path of edges and queues orders
//     them, within a step and from step to step
Result<void> Verify(const Program& program, int run_ahead_ops = kRunAheadOps);

}  // namespace foretrain
