#include "sim/program/lower/update/overlap.h"

#include <algorithm>
#include <string>

#include "sim/program/blocks/block_builder.h"
#include "sim/program/blocks/blocks.h"
#include "sim/program/lower/layout/bucket_state.h"
#include "sim/program/lower/model/recompute.h"
#include "sim/program/lower/rank/lowerings.h"
#include "sim/program/lower/transfers/boundaries.h"
#include "sim/program/lower/transfers/transfer_blocks.h"

namespace foretrain {
namespace {

Block BlockOf(const LowerContext& context, int block, Pass pass) {
  return BuildBlock({context.model, context.plan, context.stage.shared_table},
                    {.kind = context.stage.KindOf(block),
                     .pass = pass,
                     .recompute = RecomputeOf(context.plan, context.stage, block)});
}

// A tensor of each micro-batch that outlives its forward: the backward of the block reads it, or it
// arrives for the next step.
struct InFlight {
  TensorName name;
  std::int64_t bytes = 0;
  NumberFormat format = NumberFormat::kFp32;
  Category category = Category::kActivations;
  bool incoming = false;  // received or loaded
};

// True if the backward, or the recomputation in it, touches a slot of the role.
bool ReadsAgain(const LowerContext& context, int block, SlotRole role) {
  for (const Pass pass : {Pass::kBackward, Pass::kRecompute}) {
    const bool recomputes = RecomputeOf(context.plan, context.stage, block) == RecomputeKind::kFull;
    if (pass == Pass::kRecompute && !recomputes) continue;
    const Block again = BlockOf(context, block, pass);
    const auto has_role = [role](const TensorSlot& slot) { return slot.role == role; };
    if (std::any_of(again.slots.begin(), again.slots.end(), has_role)) return true;
  }
  return false;
}

// Every tensor that the next forward of another micro-batch would overwrite before the backward has
// read it. The backward's own block tells which tensors it reads, so frozen weights and
// recomputation need no rule here.
std::vector<InFlight> InFlightOf(const LowerContext& context, int block) {
  std::vector<InFlight> tensors;
  const bool received = context.stage.ChunkOf(block).first_block == block;
  const bool outlives = LeadOf(context) > 0;
  for (const TensorSlot& slot : BlockOf(context, block, Pass::kForward).slots) {
    const bool read_again = outlives && ReadsAgain(context, block, slot.role);
    if (slot.base != kNoSlot) continue;
    if (slot.role == SlotRole::kSaved && outlives) {
      tensors.push_back(
          {{TensorKind::kSaved, block, 0, slot.index}, slot.bytes, slot.format, slot.category});
    } else if (slot.role == SlotRole::kInput && (read_again || received)) {
      tensors.push_back({{TensorKind::kActivation, block - 1},
                         slot.bytes,
                         slot.format,
                         Category::kActivations,
                         received});
    } else if (slot.role == SlotRole::kIds && read_again) {
      tensors.push_back({{TensorKind::kIds}, slot.bytes, slot.format, Category::kStaging, true});
    }
  }
  if (outlives && received && context.plan.documents) {
    const TensorShape shape = BatchShape(context.plan);
    tensors.push_back({DocumentStartsName(context.stage, block, 0), shape.bytes, shape.format,
                       shape.category, true});
  }
  return tensors;
}

bool IsSame(const TensorName& a, const TensorName& b) {
  return a.kind == b.kind && a.block == b.block && a.index == b.index;
}

Ring RingOf(const LowerContext& context, int life) {
  return {static_cast<int>(context.plan.MicroBatches()), life};
}

// Size, format and category of each place of a ring.
struct Place {
  std::int64_t bytes = 0;
  NumberFormat format = NumberFormat::kFp32;
  Category category = Category::kActivations;
};

// Rings are state: their places exist for the whole run, and Verify checks who reads them
// (`holds`).
std::vector<int> NewPlaces(RankBuilder& rank, int count, const Place& place, Holds holds) {
  std::vector<int> places;
  for (int i = 0; i < count; ++i) {
    places.push_back(rank.NewState(place.bytes, place.category, Space::kDevice, place.format));
    rank.Rank().buffers.back().holds = holds;
  }
  return places;
}

StepDescription Keep(const LowerContext& context, const InstructionKey& key) {
  const std::int64_t elements = context.BucketAt(key.part).elements;
  const NumberFormat format = context.BucketAt(key.part).weights;
  return {"keep." + std::to_string(elements),
          [=] { return KeepBlock(elements, format); },
          {WholeState(&Bucket::parameters, key.part), Uses(OlderName(key.micro_batch, key.part))}};
}

constexpr StepRule kKeep{Keep};

}  // namespace

int LeadOf(const LowerContext& context) {
  return context.plan.StepsOverlap() ? context.plan.pp - 1 - context.at.pp : 0;
}

bool IsInFlight(const LowerContext& context, const TensorName& name) {
  if (!context.plan.StepsOverlap()) return false;
  // Ids belong to the embedding's forward, an activation to that of the block after it.
  const int block = name.kind == TensorKind::kActivation ? name.block + 1 : name.block;
  const std::vector<int>& blocks = context.stage.blocks;
  if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) return false;
  const auto tensors = InFlightOf(context, block);
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const InFlight& tensor) { return IsSame(tensor.name, name); });
}

TensorName OlderName(int micro_batch, int bucket) {
  return {TensorKind::kOlderParameters, 0, micro_batch, bucket};
}

std::vector<std::size_t> EndsOfBackwards(const LowerContext& context, const Skeleton& skeleton) {
  std::vector<std::size_t> ends(static_cast<std::size_t>(context.plan.MicroBatches()));
  for (std::size_t i = 0; i < skeleton.size(); ++i) {
    const InstructionKey& key = skeleton[i].key;
    const bool sums = key.kind == InstructionKind::kHeadReduce ||
                      (key.kind == InstructionKind::kAllReduce && key.pass == Pass::kUpdate);
    if (key.pass != Pass::kBackward && !sums) continue;
    ends[static_cast<std::size_t>(key.micro_batch)] = i;
  }
  return ends;
}

// A tensor that a forward gives to a backward needs one place for each micro-batch that the rank is
// ahead, and one for its own. A received tensor arrives during the micro-batch before, so it needs
// one place more.
void MakeOverlapState(RankBuilder& rank) {
  const LowerContext& context = rank.Context();
  const Plan& plan = context.plan;
  if (!plan.StepsOverlap()) return;
  const int lead = LeadOf(context);
  const bool each = plan.UpdatesEachMicroBatch();
  for (Bucket& bucket : rank.Rank().buckets) {
    const int count = each ? (lead > 0 ? RingOf(context, lead).Size() : 0) : 1;
    const std::int64_t bytes = BytesIn(bucket.weights, bucket.elements);
    bucket.older = NewPlaces(rank, count, {bytes, bucket.weights, Category::kParameters},
                             each ? Holds::kMicroBatch : Holds::kStep);
    if (count == 0) continue;
    const auto number = static_cast<int>(&bucket - rank.Rank().buckets.data());
    rank.Tensors().PutRing(OlderName(0, number), RingOf(context, each ? lead : 1), bucket.older);
  }
  for (const int block : context.stage.blocks) {
    for (const InFlight& tensor : InFlightOf(context, block)) {
      const Ring ring = RingOf(context, lead + (tensor.incoming ? 2 : 1));
      rank.Tensors().PutRing(
          tensor.name, ring,
          NewPlaces(rank, ring.Size(), {tensor.bytes, tensor.format, tensor.category},
                    Holds::kMicroBatch));
    }
  }
}

// Keeps parameters for backwards whose forward has run. The copy is made right before the update
// changes them: until then the older copies in the same places are in use.
void LowerOlderParameters(const LowerContext& context, Skeleton& skeleton) {
  const Plan& plan = context.plan;
  const int lead = LeadOf(context);
  if (!plan.StepsOverlap() || (plan.UpdatesEachMicroBatch() && lead == 0)) return;
  const auto buckets = static_cast<int>(context.layout.buckets.size());
  Insertions insertions;
  const auto keep = [&](std::size_t before, int micro_batch, bool for_next_step) {
    for (int bucket = buckets - 1; bucket >= 0; --bucket) {
      const InstructionKey key{InstructionKind::kKeep, Pass::kUpdate, 0, micro_batch, bucket};
      insertions.Before(before, {.key = key, .rule = &kKeep, .ahead = for_next_step});
    }
  };
  if (plan.UpdatesEachMicroBatch()) {
    const std::vector<std::size_t> ends = EndsOfBackwards(context, skeleton);
    const auto m = static_cast<int>(ends.size());
    for (int i = 0; i < m; ++i) {
      keep(ends[static_cast<std::size_t>(i)] + 1, (i + lead) % m, i + lead >= m);
    }
  } else {
    const auto updates = [](const SkeletonStep& step) {
      return step.key.kind == InstructionKind::kOptimizerStep;
    };
    const auto first = std::find_if(skeleton.begin(), skeleton.end(), updates);
    keep(static_cast<std::size_t>(first - skeleton.begin()), 0, true);
  }
  insertions.ApplyTo(skeleton);
}

}  // namespace foretrain
