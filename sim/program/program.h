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
#include "sim/program/groups.h"
#include "sim/program/op.h"
#include "sim/spec/model_spec.h"
#include "sim/spec/plan.h"
#include "traces/kinds.h"

namespace foretrain {

// Whose values a persistent buffer holds, where not everyone's: reads by instructions of another
// step, or of another micro-batch, would find what is not theirs.
enum class Holds : std::uint8_t { kState, kStep, kMicroBatch };

// One allocation of a rank. A persistent buffer holds state: it lives for the whole run, across
// steps, and is zero or loaded before the first step. Any other lives, in issue order, from its
// first writer to its last accessor of one step.
struct Buffer {
  std::int64_t bytes = 0;
  Category category = Category::kWorkspace;
  Space space = Space::kDevice;
  bool persistent = false;
  NumberFormat format = NumberFormat::kFp32;  // of its numbers, where they are all alike
  Holds holds = Holds::kState;                // of a persistent one
  std::int64_t offset = -1;    // in the arena of its space, 256-byte aligned; by Link
  std::int32_t first_op = -1;  // op numbers of the rank's step, first access to last; by Link
  std::int32_t last_op = -1;
};

// A tensor of an instruction: a byte range of a buffer. bytes == 0 is an absent optional operand.
struct Binding {
  std::int32_t buffer = -1;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

struct Instruction {
  InstructionKey key;
  std::int32_t block = 0;          // into Program::blocks
  std::int32_t first_binding = 0;  // into RankProgram::bindings; one per slot of the block
  std::int32_t first_op = 0;       // number of its first op in the rank's step; by Link
  std::int32_t after =
      -1;  // its first op waits for all ops of this earlier instruction of the step; -1: none
  // Works for the batch of the next step. A run of n steps plays the rank's list n + 1 times where
  // any instruction is ahead: the first time those alone, the last time all but those. Who is left
  // out waits for its edges all the same, so that all orders hold.
  bool ahead = false;
};

// `to` waits for `from` to have ended `distance` steps earlier (0 or 1). Op numbers count through
// the rank's step.
struct Edge {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t distance = 0;
};

// A parameter tensor of one rank: where it lies, and which part of the model's tensor it is.
struct ParameterPlace {
  std::string name;       // "layers.3.attention.qkv.weight"
  std::int64_t rows = 0;  // of the whole tensor; a vector has rows == 1
  std::int64_t cols = 0;
  std::int64_t row_begin = 0;  // the part that this rank computes with (tensor parallelism)
  std::int64_t row_end = 0;
  std::int64_t col_begin = 0;
  std::int64_t col_end = 0;
  std::int32_t bucket = 0;  // of the rank
  std::int64_t offset = 0;  // elements from the start of the bucket
  bool decays = false;
  bool replicated = false;  // held in full by every tp rank
  std::int32_t copies = 1;  // tp ranks that hold this part: of heads of keys and values
  // Of a part of a tensor in 4 bits (blocks/packed_tensors.h): the tensor's elements on this rank,
  // and those of them before this part; 0: numbers lie as they are. `offset` is the tensor's, in
  // bytes.
  std::int64_t packed_elements = 0;
  std::int64_t packed_first = 0;
  bool counted = true;      // this rank's copy enters the gradient norm
};

// Parameters that are reduced, updated and gathered together: one flat range.
struct Bucket {
  std::int64_t elements = 0;                   // padded to a multiple of 16 * shards
  std::int64_t used = 0;                       // elements that hold parameters
  std::int64_t decayed = 0;                    // leading elements that weight decay applies to
  NumberFormat weights = NumberFormat::kFp32;  // of `parameters`
  NumberFormat sums = NumberFormat::kFp32;     // of `gradients`
  bool frozen = false;                         // no gradient trains it: parameters alone
  bool unsharded = false;        // parameters are whole where those of others are in shards
  bool experts = false;          // that expert parallelism deals out: held by kExpertDp alone
  std::int32_t shards = 1;       // ranks that share its optimizer state
  std::int32_t shard = 0;        // this rank's part: [shard, shard + 1) * elements / shards
  std::int32_t parameters = -1;  // buffer: all of it, or this rank's shard under ZeRO-3
  std::int32_t gradients = -1;   // buffer: all of it, or the shard
  std::int32_t moment1 = -1;     // buffer: the shard's, in the plan's format; -1: none
  std::int32_t moment2 = -1;
  std::int32_t absmax1 = -1;  // buffer: scales of moments in 8 bits; -1: none
  std::int32_t absmax2 = -1;
  std::vector<std::int32_t> older;  // buffers: older parameters that micro-batches in flight use
  std::int32_t master = -1;  // buffer: the fp32 shard that is updated, of which `parameters` is a
                             // copy; -1: there is none
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
  std::array<std::int64_t, kSpaceCount> arena_bytes{};  // by Link
  std::int32_t op_count = 0;                            // by Link

  RankCoordinates Coordinates() const { return {pp, dp, cp, tp}; }
  // Whether the rank works for the next step too.
  bool WorksAhead() const;
};

struct Program {
  ModelSpec model;
  Plan plan;
  std::vector<Block> blocks;
  std::vector<std::vector<int>>
      groups;  // members in ascending rank order; kNext and kPrev: the pair {lower, upper}
  std::vector<RankProgram> ranks;  // all of them, or one a class (docs/program.md)
  // [rank of the plan]: the rank among `ranks` that does what it does; empty where all are there.
  std::vector<std::int32_t> stands_for;
  std::uint64_t hash = 0;  // of instructions, blocks and layout; joins a forecast with its run
};

// Whether any rank works for the next step too: steps overlap.
bool StepsOverlap(const Program& program);

// Adds an instruction to the end of the rank's step, with one binding a slot of `block`.
Instruction& AppendInstruction(RankProgram& rank, const InstructionKey& key, std::int32_t block,
                               const std::vector<Binding>& bindings);

// A compiled op in place: what walkers of a rank's step iterate over.
struct OpRef {
  std::int32_t instruction = 0;
  std::int32_t op = 0;  // in the block
};

const Op& OpAt(const Program& program, const RankProgram& rank, OpRef ref);

// For each op number of the rank's step, its instruction and op. Needs Link's first_op.
std::vector<OpRef> OpRefs(const Program& program, const RankProgram& rank);

// Binding of operand `i` of the op; bytes == 0 where it is left out.
Binding OperandBinding(const Program& program, const RankProgram& rank, OpRef ref, int i);

// Id of the op, equal in every run of the program.
OpId IdOf(const RankProgram& rank, OpRef ref);

// Readable listing of a rank's step: one line an instruction or, with `ops`, one an op with queue,
// tensors and edges.
std::string Listing(const Program& program, int rank_index, bool ops);

// ---- the steps of Compile, each usable alone
// -------------------------------------------------------------------------

// Which ranks of each stage a program has.
enum class RankChoice : std::uint8_t {
  kAll,
  kClasses,  // one of those that a simulation cannot tell apart (lower/rank_class.h)
  kFirst,    // the first, for all of the stage: others may have more or less padding and norm to do
};

struct CompileOptions {
  RankChoice ranks = RankChoice::kAll;
};

// model and plan -> linked and verified Program.
//   Errors: kInvalidArgument from ValidateModel and ValidatePlan; kUnsupported for what no pass
//   lowers; kInfeasible never.
Result<Program> Compile(const ModelSpec& model, const Plan& plan,
                        const CompileOptions& options = {});

// Derives op numbers, lives of buffers, arena offsets (link_layout.h; 256-byte aligned), the edges
// between ops of different queues, from reads and writes of byte ranges over two consecutive steps,
// and the hash. Idempotent.
//
// Memory is shared by buffers of all queues; where the waits that this makes close a circle between
// ranks, the whole program is laid out again with less sharing (link_layout.h), which needs more
// memory, down to none that makes an op wait. A circle that remains is the program's own, for
// Verify to refuse. Blocks, bindings and buffers must exist (FT_CHECK). About 0.5 us an op.
void Link(Program& program);

// The host issues op n, through all steps, once op n - kRunAheadOps has ended (transfer_queues.h).
inline constexpr int kRunAheadOps = 1024;

// Checks what every executor relies on; refuses with kInvalidArgument and the circle of waits or
// the pair of ops that breaks it.
//
//   program        linked
//   run_ahead_ops  > 0; smaller ones are for tests of the check
//
//   - instructions, bindings and edges lie in their tables, and ids are unique in a rank's step
//   - copies touch the spaces they name, ops on the queue cpu the host's memory, others the
//   device's
//   - each (block, micro-batch) has a forward and then either a backward or both halves, input half
//     first (block 0 may have its weight half alone); a recomputation lies between
//   - sends and receives pair up with equal bytes; all members of a group issue its collectives in
//     the same order
//   - buffers that live at the same time do not overlap, and nothing is read that the step has not
//     written but state
//   - where steps overlap, partners work for the same step, and what a buffer holds for a step or a
//     micro-batch is read by these alone
//   - two consecutive steps run to their end: no circle of queues, edges, partners and run-ahead
//   - of two ops that touch the same bytes, at least one writing, a path of edges and queues orders
//     them, within a step and from step to step
Result<void> Verify(const Program& program, int run_ahead_ops = kRunAheadOps);

}  // namespace foretrain
