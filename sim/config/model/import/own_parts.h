// Readers for the fields of each config.json family that its table row does not cover, one per
// family. For families.cc.
#pragma once

#include "sim/config/model/import/config.h"

namespace foretrain {

void MoreOfGpt2(Config& config, ModelSpec& model);
void MoreOfGptBigCode(Config& config, ModelSpec& model);
void MoreOfGptJ(Config& config, ModelSpec& model);
void MoreOfGptNeoX(Config& config, ModelSpec& model);
void MoreOfOpt(Config& config, ModelSpec& model);
void MoreOfBloom(Config& config, ModelSpec& model);
void MoreOfMpt(Config& config, ModelSpec& model);
void MoreOfFalcon(Config& config, ModelSpec& model);
void MoreOfStarCoder2(Config& config, ModelSpec& model);
void MoreOfStableLm(Config& config, ModelSpec& model);
void MoreOfNemotron(Config& config, ModelSpec& model);
void MoreOfPhi(Config& config, ModelSpec& model);
void MoreOfPhi3(Config& config, ModelSpec& model);
void MoreOfLlama(Config& config, ModelSpec& model);
void MoreOfMistral(Config& config, ModelSpec& model);
void MoreOfMixtral(Config& config, ModelSpec& model);
void MoreOfQwen2(Config& config, ModelSpec& model);
void MoreOfQwen2Moe(Config& config, ModelSpec& model);
void MoreOfQwen3(Config& config, ModelSpec& model);
void MoreOfQwen3Moe(Config& config, ModelSpec& model);
void MoreOfGemma(Config& config, ModelSpec& model);
void MoreOfGemma2(Config& config, ModelSpec& model);
void MoreOfGemma3(Config& config, ModelSpec& model);
void MoreOfGlm(Config& config, ModelSpec& model);
void MoreOfGlm4(Config& config, ModelSpec& model);
void MoreOfGranite(Config& config, ModelSpec& model);
void MoreOfDeepSeekV2(Config& config, ModelSpec& model);
void MoreOfDeepSeekV3(Config& config, ModelSpec& model);
void MoreOfGlm4Moe(Config& config, ModelSpec& model);
void MoreOfGptOss(Config& config, ModelSpec& model);
void MoreOfOlmo2(Config& config, ModelSpec& model);
void MoreOfOlmo3(Config& config, ModelSpec& model);
void MoreOfOlmoe(Config& config, ModelSpec& model);
void MoreOfSmolLm3(Config& config, ModelSpec& model);
void MoreOfCohere(Config& config, ModelSpec& model);
void MoreOfCohere2(Config& config, ModelSpec& model);
void MoreOfPhiMoe(Config& config, ModelSpec& model);
void MoreOfMiniMaxM2(Config& config, ModelSpec& model);
void MoreOfDbrx(Config& config, ModelSpec& model);
void MoreOfLlama4(Config& config, ModelSpec& model);
void MoreOfBert(Config& config, ModelSpec& model);
void MoreOfRoberta(Config& config, ModelSpec& model);
void MoreOfT5(Config& config, ModelSpec& model);
void MoreOfMt5(Config& config, ModelSpec& model);
void MoreOfInternLm2(Config& config, ModelSpec& model);
void MoreOfInternLm3(Config& config, ModelSpec& model);

}  // namespace foretrain
