// Writes the config.json of Hugging Face models: the inverse of hugging_face.h.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/config/model/model_spec.h"

namespace foretrain {

struct HuggingFaceConfig {
  std::string model_type;
  std::string text;  // JSON, indented by two spaces
};

// The config.json of `model` in the family `model_type`; "" takes the first family that can
// describe the model.
//
//   dtype  of the weights, such as "bfloat16"
//
// The text is read again before it is returned, so that it describes the same model. Fields of
// training alone are left out: z_loss, predict_weight, router_bias_rate, balance_tokens. The ids of
// special tokens are null, as a model does not know them.
//
// Errors: kUnsupported, naming the field that the family, or every family, cannot express, or a
// family that is not written.
Result<HuggingFaceConfig> ConfigOf(const ModelSpec& model, std::string_view model_type,
                                   std::string_view dtype);

// A config.json with another dtype of the weights; all else stays. Errors: as ParseJson's.
Result<std::string> WithDtype(std::string_view config, std::string_view dtype);

}  // namespace foretrain
