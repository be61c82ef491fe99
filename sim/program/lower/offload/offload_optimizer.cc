// Updates offloaded optimizer state, piece by piece:
//
//   by the host    [gradients out] -> [read] -> update on cpu -> [write], parameters in;
//   streamed       [read] -> in -> update on compute -> out -> [write]
//
// Steps in brackets depend on the plan: reads and writes need state on NVMe. A piece is read while
// the one before it is updated. Ren et al. 2021 (ZeRO-Offload), s. 4; Rajbhandari et al. 2021
// (ZeRO-Infinity), s. 6.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/ir/precision.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/layout/sharding.h"
#include "sim/program/lower/layout/update_pieces.h"
#include "sim/program/lower/offload/offload_state.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/rank/rank_builder.h"
#include "sim/program/lower/transfers/transfer_steps.h"

namespace foretrain {
namespace {

// A piece of a bucket's shard: the place of each part between updates, and its copies on the way.
class Piece {
 public:
  Piece(const LowerContext& context, const InstructionKey& key)
      : context_(context), key_(key), piece_(StatePieceOf(context, key.part, key.micro_batch)) {}

  const ShardRange& range() const { return piece_; }
  std::int64_t elements() const { return piece_.end - piece_.begin; }
  std::int64_t decayed() const {
    return std::clamp<std::int64_t>(bucket().decayed - piece_.begin, 0, elements());
  }
  const OptimizerOffload& offload() const { return offload_; }
  const Bucket& bucket() const { return context_.BucketAt(key_.part); }

  bool IsOnDisk(StatePart part) const {
    return part != StatePart::kGradient && SpaceOfState(context_, offload_, part) == Space::kNvme;
  }
  TensorUse Stored(StatePart part) const {
    switch (part) {
      case StatePart::kGradient:
        return GradientsIn(context_, key_.part, piece_);
      case StatePart::kMoment1:
        return OfShard(&Bucket::moment1, part);
      case StatePart::kMoment2:
        return OfShard(&Bucket::moment2, part);
      case StatePart::kParameter:
        if (HasMasters(context_.plan) || HasDeviceCopy(offload_)) {
          return OfShard(&Bucket::master, part);
        }
        break;
      case StatePart::kWeights:
        break;
    }
    return ParametersIn(context_, key_.part, piece_);
  }
  // Begins, ends or reads the copy of a part that is on its way.
  TensorUse Brings(StatePart part, Space space) const {
    return Makes(NameOf(part, key_), ShapeOf(part, space));
  }
  TensorUse Leaves(StatePart part, Space space) const {
    return Frees(NameOf(part, key_), ShapeOf(part, space));
  }
  TensorUse OnWay(StatePart part) const {
    TensorUse use = Uses(NameOf(part, key_));
    use.format = FormatOf(context_.plan, part);
    use.bytes = BytesIn(use.format, elements());
    return use;
  }

 private:
  TensorShape ShapeOf(StatePart part, Space space) const {
    const NumberFormat format = FormatOf(context_.plan, part);
    return {BytesIn(format, elements()), CategoryOf(part), format, space};
  }
  TensorUse OfShard(std::int32_t Bucket::*buffer, StatePart part) const {
    TensorUse use = WholeState(buffer, key_.part);
    use.format = FormatOf(context_.plan, part);
    use.offset = BytesIn(use.format, piece_.begin - ShardOf(bucket()).begin);
    use.bytes = BytesIn(use.format, elements());
    return use;
  }

  const LowerContext& context_;
  const InstructionKey& key_;
  ShardRange piece_;
  OptimizerOffload offload_ = OffloadOf(context_, key_.part);
};

// A number that all updates read: its name on the device, and that of the copy on the host. Listed
// in the order of the update's slots.
struct Scalar {
  TensorKind on_device;
  TensorKind on_host;
};
std::vector<Scalar> ScalarsOf(const Plan& plan) {
  std::vector<Scalar> scalars;
  if (plan.clip_norm > 0) scalars.push_back({TensorKind::kNorm, TensorKind::kNormOffloaded});
  if (plan.loss_scale > 0) {
    scalars.push_back({TensorKind::kNotFinite, TensorKind::kNotFiniteOffloaded});
    if (plan.CorrectsBias()) {
      scalars.push_back({TensorKind::kSkipped, TensorKind::kSkippedOffloaded});
    }
  }
  if (plan.HasDynamicScale()) {
    scalars.push_back({TensorKind::kLossScale, TensorKind::kLossScaleOffloaded});
  }
  return scalars;
}

StepDescription Read(const LowerContext& context, const InstructionKey& key) {
  const Piece piece(context, key);
  std::vector<Move> moves;
  for (const StatePart part : PartsOnDisk(context, piece.offload())) {
    moves.push_back({piece.Stored(part), piece.Brings(part, Space::kPinned)});
  }
  return Copies("optimizer.read", {Space::kNvme, Space::kPinned}, /*state=*/true, moves);
}

// A master is written but not copied to the device; the weights made of it are. Parameters that are
// copied to the device next stay until then.
StepDescription Write(const LowerContext& context, const InstructionKey& key) {
  const Piece piece(context, key);
  std::vector<Move> moves;
  for (const StatePart part : PartsOnDisk(context, piece.offload())) {
    const bool copied_next = part == StatePart::kParameter && HasDeviceCopy(piece.offload()) &&
                             !HasMasters(context.plan);
    moves.push_back(
        {copied_next ? piece.OnWay(part) : piece.Leaves(part, Space::kPinned), piece.Stored(part)});
  }
  return Copies("optimizer.write", {Space::kPinned, Space::kNvme}, /*state=*/true, moves);
}

StepDescription StreamIn(const LowerContext& context, const InstructionKey& key) {
  const Piece piece(context, key);
  std::vector<Move> moves;
  for (const StatePart part : PartsStreamedIn(context)) {
    moves.push_back({piece.IsOnDisk(part) ? piece.Leaves(part, Space::kPinned) : piece.Stored(part),
                     piece.Brings(part, Space::kDevice)});
  }
  return Copies("optimizer.in", {Space::kPinned, Space::kDevice}, /*state=*/true, moves);
}

StepDescription StreamOut(const LowerContext& context, const InstructionKey& key) {
  const Piece piece(context, key);
  std::vector<Move> moves;
  for (const StatePart part : PartsStreamed(context)) {
    moves.push_back({piece.Leaves(part, Space::kDevice), piece.IsOnDisk(part)
                                                             ? piece.Brings(part, Space::kPinned)
                                                             : piece.Stored(part)});
  }
  return Copies("optimizer.out", {Space::kDevice, Space::kPinned}, /*state=*/true, moves);
}

// Copies gradients to the host. A delayed update has persistent buffers for them, because it reads
// them in the next step.
StepDescription GradientOut(const LowerContext& context, const InstructionKey& key) {
  const Piece piece(context, key);
  const StatePart part = StatePart::kGradient;
  const std::array<Move, 1> moves{
      Move{piece.Stored(part),
           piece.offload().delayed ? piece.OnWay(part) : piece.Brings(part, Space::kPinned)}};
  return Copies("gradients.out", {Space::kDevice, Space::kPinned}, /*state=*/true, moves);
}

StepDescription ParameterIn(const LowerContext& context, const InstructionKey& key) {
  const Piece piece(context, key);
  const bool masters = HasMasters(context.plan);
  const StatePart part = masters ? StatePart::kWeights : StatePart::kParameter;
  const bool on_way = masters || piece.IsOnDisk(part);
  const std::array<Move, 1> moves{
      Move{on_way ? piece.Leaves(part, Space::kPinned) : piece.Stored(part),
           ParametersIn(context, key.part, piece.range())}};
  return Copies("parameters.in", {Space::kPinned, Space::kDevice}, /*state=*/false, moves);
}

// The gradients that the update reads. Copies made for this update alone are freed by it.
TensorUse GradientOfUpdate(const LowerContext& context, const Piece& piece) {
  const bool offloaded = GradientsAreOffloaded(context.plan);
  const StatePart part = StatePart::kGradient;
  if (piece.offload().stream) {
    return offloaded ? piece.Leaves(part, Space::kDevice) : piece.Stored(part);
  }
  if (offloaded) return piece.Stored(part);
  return piece.offload().delayed ? piece.OnWay(part) : piece.Leaves(part, Space::kPinned);
}

// One block for device and host: operands are copies on their way or state in place, and the queue
// decides who computes.
StepDescription Update(const LowerContext& context, const InstructionKey& key) {
  const Plan& plan = context.plan;
  const Piece piece(context, key);
  const bool stream = piece.offload().stream, delayed = piece.offload().delayed;
  const std::vector<StatePart> moved =
      stream ? PartsStreamed(context) : PartsOnDisk(context, piece.offload());
  const auto now = [&](StatePart part) {
    const bool is_moved = std::find(moved.begin(), moved.end(), part) != moved.end();
    return is_moved ? piece.OnWay(part) : piece.Stored(part);
  };
  std::vector<TensorUse> uses = {now(StatePart::kParameter), GradientOfUpdate(context, piece),
                                 now(StatePart::kMoment1)};
  if (MomentsOf(plan.optimizer) > 1) uses.push_back(now(StatePart::kMoment2));
  for (const Scalar& scalar : ScalarsOf(plan)) {
    uses.push_back(Uses(stream ? scalar.on_device : scalar.on_host));
  }
  if (HasMasters(plan)) {
    uses.push_back(stream ? piece.Stored(StatePart::kWeights)
                          : piece.Brings(StatePart::kWeights, Space::kPinned));
  }
  std::string name = "optimizer." + std::to_string(piece.elements()) + "." +
                     std::to_string(piece.decayed()) + (stream ? "" : ".cpu") +
                     (delayed ? ".delayed" : "");
  return {std::move(name),
          [&plan, delayed, elements = piece.elements(), decayed = piece.decayed(),
           queue = stream ? Queue::kCompute : Queue::kCpu] {
            return OptimizerBlock(plan, elements, decayed, queue, delayed);
          },
          std::move(uses)};
}

StepDescription ScalarsOut(const LowerContext& context, const InstructionKey&) {
  const auto number = [](TensorKind kind) {
    TensorUse use = Uses(kind);
    use.bytes = kFloatBytes;
    return use;
  };
  std::vector<Move> moves;
  for (const Scalar& scalar : ScalarsOf(context.plan)) {
    moves.push_back({number(scalar.on_device), number(scalar.on_host)});
  }
  return Copies("norm.out", {Space::kDevice, Space::kPinned}, /*state=*/true, moves);
}

constexpr StepRule kRead{Read};
constexpr StepRule kWrite{Write};
constexpr StepRule kStreamIn{StreamIn};
constexpr StepRule kStreamOut{StreamOut};
constexpr StepRule kGradientOut{GradientOut};
constexpr StepRule kParameterIn{ParameterIn};
constexpr StepRule kUpdate{Update};
constexpr StepRule kScalarsOut{ScalarsOut};

// ---- order

struct PieceId {
  int bucket = 0;
  int piece = 0;
};

// One stage of a piece's update. It runs `lag` pieces after the first stage, so that a piece is
// copied while the one before it is updated.
struct PieceStage {
  InstructionKind kind;
  const StepRule* rule;
  int lag;
};

std::vector<PieceStage> StagesOf(const LowerContext& context, const OptimizerOffload& offload) {
  std::vector<PieceStage> stages;
  const bool disk = !PartsOnDisk(context, offload).empty();
  int lag = 0;
  if (disk) stages.push_back({InstructionKind::kNvmeRead, &kRead, lag++});
  if (offload.stream) stages.push_back({InstructionKind::kCopyIn, &kStreamIn, lag++});
  stages.push_back({InstructionKind::kOptimizerStep, &kUpdate, lag});
  if (offload.stream) stages.push_back({InstructionKind::kCopyOut, &kStreamOut, lag});
  if (disk) stages.push_back({InstructionKind::kNvmeWrite, &kWrite, lag});
  if (HasDeviceCopy(offload) && !offload.delayed) {
    stages.push_back({InstructionKind::kCopyIn, &kParameterIn, lag});
  }
  return stages;
}

using LastUses = std::vector<std::optional<InstructionKey>>;  // by bucket
// The last use of each bucket, which copies to the device wait for. This holds even if a rank's own
// shard is read no more: the gather that follows waits anyway, and so all ranks of a stage are
// alike.
LastUses LastUsesOf(const LowerContext& context, const Skeleton& skeleton) {
  LastUses last(context.layout.buckets.size());
  if (!ShardingOf(context.plan).optimizer) return last;
  for (const SkeletonStep& step : skeleton) {
    if (step.key.kind != InstructionKind::kBlock) continue;
    for (const int bucket : context.BucketsOf(step.key.block)) {
      if (ShardsParameters(context.plan, context.BucketAt(bucket))) continue;
      last[static_cast<std::size_t>(bucket)] = step.key;
    }
  }
  return last;
}

// A software pipeline over the pieces: in turn t, stage s works on piece t - lag(s). So copies of
// one piece overlap the update of another, and at most lag + 1 pieces are in flight.
std::vector<SkeletonStep> Pipelined(const LowerContext& context, const std::vector<PieceId>& pieces,
                                    const LastUses& last) {
  std::vector<SkeletonStep> steps;
  if (pieces.empty()) return steps;
  const std::vector<PieceStage> stages =
      StagesOf(context, OffloadOf(context, pieces.front().bucket));
  const auto count = static_cast<int>(pieces.size());
  for (int turn = 0; turn < count + stages.back().lag; ++turn) {
    for (const PieceStage& stage : stages) {
      const int number = turn - stage.lag;
      if (number < 0 || number >= count) continue;
      const PieceId& id = pieces[static_cast<std::size_t>(number)];
      SkeletonStep step{PieceKey(stage.kind, id.bucket, id.piece), stage.rule};
      if (stage.rule == &kParameterIn) step.after = last[static_cast<std::size_t>(id.bucket)];
      steps.push_back(step);
    }
  }
  return steps;
}

std::vector<PieceId> PieceIds(const LowerContext& context, int bucket) {
  std::vector<PieceId> ids;
  if (!OffloadOf(context, bucket).offloaded) return ids;
  const auto count = static_cast<int>(StatePiecesOf(context, bucket).size());
  for (int piece = 0; piece < count; ++piece) ids.push_back({bucket, piece});
  return ids;
}

// Position in the skeleton after which each bucket's gradients are complete over micro-batches and
// ranks.
std::vector<std::size_t> ReadyPositions(const LowerContext& context, const Skeleton& skeleton) {
  std::vector<std::size_t> ready(context.layout.buckets.size(), 0);
  const auto note = [&](int bucket, std::size_t position) {
    std::size_t& last = ready[static_cast<std::size_t>(bucket)];
    last = std::max(last, position);
  };
  for (const BucketCompletion& done : BucketCompletions(context, skeleton)) {
    note(done.bucket, done.position);
  }
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const auto& [kind, pass, block, micro_batch, part] = skeleton[i].key;
    const bool leaves = kind == InstructionKind::kCopyOut && pass == Pass::kBackward;
    if (kind == InstructionKind::kAllReduce || kind == InstructionKind::kReduceScatter || leaves ||
        kind == InstructionKind::kAccumulate || kind == InstructionKind::kHeadReduce) {
      note(part, i);
    }
  }
  return ready;
}

// Pieces of all buckets in the order in which the next forward needs them. A delayed update reads
// gradients that the current step replaces, so it follows the order of that step's backward.
std::vector<PieceId> AllPieces(const LowerContext& context) {
  const bool by_backward = context.plan.delayed_update && GradientsAreOffloaded(context.plan);
  const auto buckets = static_cast<int>(context.layout.buckets.size());
  std::vector<PieceId> all;
  for (int i = 0; i < buckets; ++i) {
    const std::vector<PieceId> ids = PieceIds(context, by_backward ? i : buckets - 1 - i);
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

}  // namespace

// Makes masters, the gradients that a delayed update keeps between steps, and scalars for the host.
void MakeOptimizerOffloadState(RankBuilder& rank) {
  const LowerContext& context = rank.Context();
  const Plan& plan = context.plan;
  if (plan.offload_optimizer == OffloadTarget::kNone) return;
  for (std::size_t i = 0; i < rank.Rank().buckets.size(); ++i) {
    Bucket& bucket = rank.Rank().buckets[i];
    const auto number = static_cast<int>(i);
    const OptimizerOffload offload = OffloadOf(context, number);
    if (HasDeviceCopy(offload) && bucket.master < 0) {
      const NumberFormat format = FormatOf(plan, StatePart::kParameter);
      bucket.master = rank.NewState(BytesIn(format, bucket.elements / bucket.shards),
                                    Category::kMasterWeights, offload.master, format);
    }
    if (!offload.delayed || GradientsAreOffloaded(plan)) continue;
    const std::vector<ShardRange> pieces = StatePiecesOf(context, number);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      const InstructionKey key =
          PieceKey(InstructionKind::kOptimizerStep, number, static_cast<int>(p));
      rank.Tensors().Put(NameOf(StatePart::kGradient, key),
                         rank.NewState(BytesIn(bucket.sums, pieces[p].end - pieces[p].begin),
                                       Category::kGradients, Space::kPinned, bucket.sums));
    }
  }
  if (plan.stream_optimizer) return;
  for (const Scalar& scalar : ScalarsOf(plan)) {
    rank.Tensors().Put({scalar.on_host},
                       rank.NewState(kFloatBytes, Category::kWorkspace, Space::kPinned));
  }
}

// If an update waits for no global number, it runs right after its bucket's reduction and overlaps
// the rest of the backward. With clipping or loss scaling all updates end the step. Delayed updates
// begin the next step and overlap its forward and backward.
void LowerOptimizerOffload(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  if (plan.offload_optimizer == OffloadTarget::kNone) return;
  const bool waits = !ScalarsOf(plan).empty();
  Insertions insertions;
  const std::vector<std::size_t> ready = ReadyPositions(context, skeleton);
  const LastUses last = LastUsesOf(context, skeleton);
  const auto buckets = static_cast<int>(context.layout.buckets.size());
  for (int bucket = 0; bucket < buckets; ++bucket) {
    const std::vector<PieceId> ids = PieceIds(context, bucket);
    const std::size_t behind = ready[static_cast<std::size_t>(bucket)];
    if (!plan.stream_optimizer && !GradientsAreOffloaded(plan)) {
      for (const PieceId& id : ids) {
        insertions.Behind(behind,
                          {PieceKey(InstructionKind::kCopyOut, bucket, id.piece), &kGradientOut});
      }
    }
    if (waits || plan.delayed_update) continue;
    // These updates wait for their gradients alone.
    for (const SkeletonStep& step : Pipelined(context, ids, last)) insertions.Behind(behind, step);
  }
  const std::vector<PieceId> all = AllPieces(context);
  if (plan.delayed_update) {
    for (const SkeletonStep& step : Pipelined(context, all, last)) insertions.Before(0, step);
  }
  insertions.ApplyTo(skeleton);
  if (waits && !plan.stream_optimizer) {
    skeleton.push_back(
        {{InstructionKind::kCopyOut, Pass::kUpdate, context.stage.layers + 1, 0, 0}, &kScalarsOut});
  }
  if (plan.delayed_update) {
    // Here the device has used the step's parameters for the last time.
    for (const PieceId& id : all) {
      skeleton.push_back({PieceKey(InstructionKind::kCopyIn, id.bucket, id.piece), &kParameterIn,
                          last[static_cast<std::size_t>(id.bucket)]});
    }
  } else if (waits) {
    for (const SkeletonStep& step : Pipelined(context, all, last)) skeleton.push_back(step);
  }
}

}  // namespace foretrain
