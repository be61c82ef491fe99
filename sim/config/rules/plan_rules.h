// Choices of a plan that exclude each other: a table of rules, each with its remedy. plan_fields.h
// checks ranges of single fields.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// `broken` returns a sentence that names both choices with their values and the nearest that works;
// empty if the plan keeps the rule. The plan's fields must be in range.
struct PlanRule {
  std::string_view name;  // "interleaving-needs-whole-rounds"; tests use it
  std::string (*broken)(const Plan& plan);
};
struct PlanModelRule {
  std::string_view name;
  std::string (*broken)(const Plan& plan, const ModelSpec& model);
};

std::span<const PlanRule> PlanRules();
std::span<const PlanModelRule> PlanModelRules();

// Returns the first broken rule as kInvalidArgument.
Result<void> CheckRules(const Plan& plan);
Result<void> CheckRules(const Plan& plan, const ModelSpec& model);

// ---- rows of the tables

// Training adapters: adapter_rules.cc.
std::string AdaptersNeedLora(const Plan& plan);
std::string AdaptersAreScaled(const Plan& plan);
std::string QuantizedBaseIsReadIn16Bits(const Plan& plan);
std::string AdaptersAreThin(const Plan& plan, const ModelSpec& model);
std::string AdaptersLeaveExpertsOut(const Plan& plan, const ModelSpec& model);
std::string AdaptersLeaveLatentAttentionOut(const Plan& plan, const ModelSpec& model);

// Multi-token prediction: mtp_rules.cc.
std::string MtpNeedsWholeSequences(const Plan& plan, const ModelSpec& model);
std::string MtpNeedsAllLogits(const Plan& plan, const ModelSpec& model);
std::string MtpDropsNothing(const Plan& plan, const ModelSpec& model);
std::string AdaptersLeaveMtpOut(const Plan& plan, const ModelSpec& model);
std::string MtpNeedsOneLastStage(const Plan& plan, const ModelSpec& model);

// Recomputation: recompute_rules.cc.
std::string RecomputeLayersNeedRecompute(const Plan& plan);
std::string RecomputeEveryNeedsRecompute(const Plan& plan);
std::string RecomputeModulesAreSelective(const Plan& plan);
std::string RecomputeModulesExist(const Plan& plan, const ModelSpec& model);

// Attention: attention_rules.cc.
std::string ScoresNeedWholeSequences(const Plan& plan);
std::string SinksNeedAllScores(const Plan& plan, const ModelSpec& model);
std::string WholeHeadNormsNeedAllHeads(const Plan& plan, const ModelSpec& model);
std::string WrittenScoresArePlain(const Plan& plan, const ModelSpec& model);
std::string ChunksAreWhole(const Plan& plan, const ModelSpec& model);
std::string ResidualsStartAtWideNorms(const Plan& plan, const ModelSpec& model);
std::string DocumentsNeedCausalSequences(const Plan& plan, const ModelSpec& model);

// Encoder-decoders: encoder_rules.cc.
std::string StacksReadTokens(const Plan& plan, const ModelSpec& model);
std::string StacksAreWhole(const Plan& plan, const ModelSpec& model);

// Distributing experts: expert_rules.cc.
std::string CapacityNeedsExperts(const Plan& plan, const ModelSpec& model);
std::string WholeExpertsNeedExperts(const Plan& plan, const ModelSpec& model);
std::string EpDividesRanksAndExperts(const Plan& plan, const ModelSpec& model);
std::string MlpTilesNeedAnMlp(const Plan& plan, const ModelSpec& model);
std::string HeadroomNeedsDroplessEp(const Plan& plan);
std::string HeadroomHoldsAnEvenShare(const Plan& plan);
std::string WholeExpertsNeedSplitRows(const Plan& plan);
std::string ExpertsAreCutOrWhole(const Plan& plan);
std::string MoePiecesNeedEp(const Plan& plan);
std::string MoePiecesFitTheTokens(const Plan& plan);
std::string BalanceGroupsAreWhole(const Plan& plan, const ModelSpec& model);
std::string EpNeedsOneReplica(const Plan& plan);
std::string BalancedBiasesStayHere(const Plan& plan, const ModelSpec& model);

// Offloading state, gradients and activations: offload_rules.cc.
std::string FractionNeedsOffload(const Plan& plan);
std::string StreamNeedsOffload(const Plan& plan);
std::string DelayNeedsHostUpdate(const Plan& plan);
std::string OffloadedMomentsAreFp32(const Plan& plan);
std::string GradientsNeedOffloadedUpdates(const Plan& plan);
std::string GradientsStayInMemory(const Plan& plan);
std::string GradientsLeaveSummed(const Plan& plan);
std::string DelayNeedsPlainLoss(const Plan& plan);
std::string ParametersNeedOffloadedUpdates(const Plan& plan);

// Muon, Adafactor and moving averages: update_rules.cc.
std::string MuonNeedsPlainUpdates(const Plan& plan);
std::string AdafactorNeedsPlainUpdates(const Plan& plan);
std::string AverageNeedsPlainUpdates(const Plan& plan);

// Schedules whose steps overlap, and post-validation: overlap_rules.cc.
std::string OverlapNeedsMicroBatches(const Plan& plan);
std::string OverlapUpdatesAlone(const Plan& plan);
std::string OverlapKeepsWholeParameters(const Plan& plan);
std::string PipeDreamSumsOnce(const Plan& plan);
std::string OverlapTrainsAll(const Plan& plan);
std::string OverlapStaysOnTheDevice(const Plan& plan);
std::string PostValidationNeedsZeroBubble(const Plan& plan);
std::string PostValidationNeedsWhatToValidate(const Plan& plan);
std::string PostValidationKeepsFp32OnTheDevice(const Plan& plan);
std::string PipeDreamUntiesEmbeddings(const Plan& plan, const ModelSpec& model);
std::string OverlapTrainsAllOfTheRouter(const Plan& plan, const ModelSpec& model);

// Number formats: precision_rules.cc.
std::string WeightsNeedShortActivations(const Plan& plan);
std::string GradientsNeedShortActivations(const Plan& plan);
std::string GatherFormatShortens(const Plan& plan);
std::string MastersLeaveParametersHere(const Plan& plan);
std::string UnshardedIsReadAsGathered(const Plan& plan);
std::string PostValidationAmendsFp32(const Plan& plan);
std::string ScaleWindowNeedsAScale(const Plan& plan);
std::string ScaleIsKnownWhereItIsUndone(const Plan& plan);
std::string ProductsNeedWholeBlocks(const Plan& plan, const ModelSpec& model);

// Splitting rows, columns and the vocabulary over tensor-parallel ranks: tensor_parallel_rules.cc.
std::string VocabParallelNeedsTp(const Plan& plan);
std::string VocabMultipleLeavesIds(const Plan& plan, const ModelSpec& model);
std::string SequenceParallelNeedsTp(const Plan& plan);
std::string SequenceParallelNeedsEvenRows(const Plan& plan);
std::string TpTilesNeedTp(const Plan& plan);
std::string ScatteredTilesAreOfOneKind(const Plan& plan);
std::string ScatteredTilesNeedTwoNorms(const Plan& plan, const ModelSpec& model);

}  // namespace foretrain
