#include "sim/program/lower/skeleton.h"

namespace foretrain {

Skeleton LowerStep(const LowerContext& context) {
  Skeleton skeleton = LowerPipeline(context);
  LowerRecompute(context, skeleton);
  LowerZero3(context, skeleton);
  LowerGradientReduction(context, skeleton);
  LowerTiedEmbeddings(context, skeleton);
  LowerUpdate(context, skeleton);
  return skeleton;
}

}  // namespace foretrain
