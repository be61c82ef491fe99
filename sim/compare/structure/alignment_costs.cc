#include "sim/compare/structure/alignment_costs.h"

#include <algorithm>
#include <cmath>

namespace foretrain {
namespace {

// Costs of an alignment. A pair that nothing speaks against costs nothing. They rank kinds of
// mistakes and are not fitted to traces.
constexpr float kContradiction = 8;  // another pass, layer or micro-batch: never worth it
constexpr float kOtherTransfer = 4;
constexpr float kOtherTopic = 2;
constexpr float kOtherHint = 0.25F;
constexpr float kHintedTopic = 0.15F;
constexpr float kNoTopic = 0.3F;         // one side speaks of a topic, the other of none
constexpr float kPerLogOfLength = 0.6F;  // natural logarithm of the ratio
constexpr float kPerLogOfNumber = 0.6F;
constexpr float kPerLogOfUpdates = 1.5F;  // kernels of an update are all alike
constexpr float kMaxLogs = 2;
constexpr float kLightAlone = 0.65F;  // an op or kernel bound by memory without a counterpart
constexpr float kHeavyAlone = 2.5F;
constexpr float kNoProduct = 3;           // a product without a kernel that computes one
constexpr float kForeignProduct = 5;      // a product within work that is bound by memory
constexpr float kMoreProducts = 1;        // a second kernel for one product
constexpr float kMoreWithProduct = 0.8F;  // a kernel that is bound by memory beside a product
constexpr float kMoreOfItsKind = 0.12F;
constexpr float kMoreTransfers = 0.4F;
constexpr float kTopicInProduct = 0.5F;  // a kernel that speaks of a topic, in a product
constexpr float kMoreBesideAttention = 0.3F;
constexpr float kUnusualName = 0.8F;
constexpr float kNamedLength = 0.5F;   // part of the cost of a length where names agree
constexpr float kLikeSiblings = 0.1F;  // part of the cost of an op alone

// Whether two passes may be the same work. A trace calls both halves of a backward pass
// "backward", and often what is recomputed within it too.
bool SamePass(Pass op, Pass kernel) {
  if (op == Pass::kNone || kernel == Pass::kNone || op == kernel) return true;
  const auto backward = [](Pass pass) {
    return pass == Pass::kBackward || pass == Pass::kBackwardInput || pass == Pass::kBackwardWeight;
  };
  if (op == Pass::kRecompute) return backward(kernel) || kernel == Pass::kForward;
  return backward(op) && backward(kernel) && (op == Pass::kBackward || kernel == Pass::kBackward);
}

// The cost of every fact that both sides know and that differs.
float Contradictions(const AlignedItem& op, const AlignedItem& kernel) {
  float cost = 0;
  if (!SamePass(op.pass, kernel.pass)) cost += kContradiction;
  if (op.block >= 0 && kernel.block >= 0 && op.block != kernel.block) cost += kContradiction;
  if (op.micro_batch >= 0 && kernel.micro_batch >= 0 && op.micro_batch != kernel.micro_batch) {
    cost += kContradiction;
  }
  if (op.transfer != InstructionKind::kBlock && kernel.transfer != InstructionKind::kBlock &&
      op.transfer != kernel.transfer) {
    cost += kOtherTransfer;
  }
  if (op.topics != 0 && kernel.topics != 0 && (op.topics & kernel.topics) == 0) {
    cost += kOtherTopic;
  }
  if (op.topics != 0 && kernel.topics == 0 && kernel.hints != 0 &&
      (op.topics & kernel.hints) == 0) {
    cost += kOtherHint;
  }
  if (op.topics == 0 && kernel.topics != 0 && op.op_class == OpClass::kGemm && op.word >= 0) {
    cost += kTopicInProduct * kernel.weight;
  }
  if (kernel.says_backward && op.word >= 0 && !op.says_backward) cost += kOtherTopic;
  return cost;
}

// Ops of one kind have kernels of the same names.
float UnusualName(const Expected& expected, const AlignedItem& kernel) {
  const auto name = static_cast<std::size_t>(kernel.name);
  if (kernel.name < 0 || name >= expected.names.size()) return 0;
  return kUnusualName * kernel.weight * (1 - expected.names[name]);
}

// How far two numbers are apart; 0 if one is unknown.
float Logs(double found, double expected) {
  if (found <= 0 || expected <= 0) return 0;
  return std::min(static_cast<float>(std::abs(std::log(found / expected))), kMaxLogs);
}

}  // namespace

void Group::Add(const AlignedItem& kernel) {
  members_ += Contradictions(op_, kernel) + UnusualName(expected_, kernel);
  if (IsHeavy(kernel) && !kernel.follows) {
    ++heavy_;
  } else {
    ++light_;
    light_weight_ += kernel.weight;
  }
  heaviest_ = std::max(heaviest_, kernel.weight);
  length_ += kernel.length;
  topics_ |= kernel.topics;
  hints_ |= kernel.hints;
  follows_ = kernel.follows;
}

bool Group::IsHopeless() const {
  if (members_ >= kContradiction) return true;
  if (op_.op_class == OpClass::kGemm) return heavy_ > 3;
  return op_.op_class != OpClass::kAttention && heavy_ > 0;
}

float Group::Cost() const {
  float cost = members_ + (follows_ ? kContradiction : 0);
  if ((op_.topics & topics_) == 0 && op_.topics != topics_) {
    cost += (op_.topics & hints_) == 0 ? kNoTopic : kHintedTopic;
  }
  const auto heavy = static_cast<float>(heavy_), number = static_cast<float>(heavy_ + light_);
  const float more = heavy + light_weight_ - heaviest_;
  if (op_.op_class == OpClass::kGemm) {
    cost += heavy_ == 0 ? kNoProduct : kMoreProducts * (heavy - 1);
    cost += kMoreWithProduct * light_weight_;
  } else if (op_.op_class == OpClass::kAttention) {
    if (heavy_ == 0) cost += kNoProduct;
    cost += kMoreOfItsKind * more;
  } else if (IsCommunication(op_.op_class)) {
    cost += kMoreTransfers * more;
  } else {
    cost += kForeignProduct * heavy + kMoreOfItsKind * more;
  }
  const bool named = (op_.topics & topics_) != 0;
  cost +=
      (named ? kNamedLength : 1) * kPerLogOfLength * Logs(length_, expected_.scale * op_.length);
  const float per_log = op_.pass == Pass::kUpdate ? kPerLogOfUpdates : kPerLogOfNumber;
  return cost + per_log * Logs(number, expected_.kernels);
}

float AloneCost(const AlignedItem& item) {
  return IsHeavy(item) ? kHeavyAlone : kLightAlone * item.weight;
}

float OpAloneCost(const AlignedItem& op, const Expected& expected) {
  if (expected.siblings_paired < 0) return AloneCost(op);
  const auto paired = static_cast<float>(expected.siblings_paired);
  return AloneCost(op) * (1 + kLikeSiblings * (2 * paired - 1));
}

float JoinCost(const AlignedItem& op, const Expected& expected, const AlignedItem& kernel) {
  const bool own = op.op_class == OpClass::kAttention;
  return Contradictions(op, kernel) + UnusualName(expected, kernel) +
         (own ? kMoreBesideAttention : kMoreWithProduct) * kernel.weight;
}

}  // namespace foretrain
