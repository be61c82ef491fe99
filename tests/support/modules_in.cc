#include "tests/support/modules_in.h"

namespace foretrain {

RecomputeModules ModulesIn(const ModelSpec& model) {
  using enum RecomputeModule;
  const bool shared = model.shared_ffn_hidden > 0, dense = model.DenseLayers() > 0;
  RecomputeModules modules = BitOf(kCoreAttention) | BitOf(kNorm);
  modules |= BitOf(model.IsLatent() ? kLatentUp : kQkv);
  if (dense) modules |= BitOf(kMlp);
  if (dense || shared) modules |= BitOf(kActivation);
  if (shared) modules |= BitOf(kSharedExperts);
  if (model.experts > 0) modules |= BitOf(kExpertActivation) | BitOf(kExperts);
  return modules;
}

}  // namespace foretrain
