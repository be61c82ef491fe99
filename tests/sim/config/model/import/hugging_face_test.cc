#include "sim/config/model/import/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "sim/config/catalogue/catalogue.h"
#include "sim/config/model/model_json.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string Sample(const std::string& name) {
  std::ifstream file(TestDataPath("configs/" + name));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << name;
  return text.str();
}

ImportedModel Import(const std::string& name) {
  const auto imported = ModelFromHuggingFace(Sample(name), name);
  EXPECT_TRUE(imported.has_value()) << imported.error().message;
  return imported ? *imported : ImportedModel{};
}

// Sample `name` with the line of `field` replaced by `line`; an empty `line` removes it.
std::string Changed(const std::string& name, const std::string& field, const std::string& line) {
  std::istringstream lines(Sample(name));
  std::string text, one;
  bool found = false;
  while (std::getline(lines, one)) {
    if (one.find("\"" + field + "\"") == std::string::npos) {
      text += one + "\n";
      continue;
    }
    found = true;
    if (!line.empty()) text += line + (one.ends_with(",") ? ",\n" : "\n");
  }
  if (!found) text.replace(text.find('{'), 1, "{\n" + line + ",");
  return text;
}

Result<ImportedModel> ImportChanged(const std::string& name, const std::string& field,
                                    const std::string& line) {
  return ModelFromHuggingFace(Changed(name, field, line), "c.json");
}

std::string Refusal(const std::string& name, const std::string& field, const std::string& line,
                    ErrorCode code) {
  const auto imported = ImportChanged(name, field, line);
  if (imported) return "accepted";
  EXPECT_EQ(imported.error().code, code) << imported.error().message;
  return imported.error().message;
}

std::string Unsupported(const std::string& name, const std::string& field,
                        const std::string& line) {
  return Refusal(name, field, line, ErrorCode::kUnsupported);
}

std::string Invalid(const std::string& name, const std::string& field, const std::string& line) {
  return Refusal(name, field, line, ErrorCode::kInvalidArgument);
}

// Exact counts of the published weights, from their model cards and safetensors headers.
TEST(HuggingFace, CountsThePublishedParametersExactly) {
  EXPECT_EQ(ParameterCount(Import("gpt2.json").model), 124'439'808);
  EXPECT_EQ(ParameterCount(Import("gpt2-xl.json").model), 1'557'611'200);
  EXPECT_EQ(ParameterCount(Import("llama-2-7b.json").model), 6'738'415'616);
  EXPECT_EQ(ParameterCount(Import("llama-3-8b.json").model), 8'030'261'248);
  EXPECT_EQ(ParameterCount(Import("tinyllama-1.1b.json").model), 1'100'048'384);
  EXPECT_EQ(ParameterCount(Import("mistral-7b-v0.1.json").model), 7'241'732'096);
  EXPECT_EQ(ParameterCount(Import("qwen2-0.5b.json").model), 494'032'768);
  EXPECT_EQ(ParameterCount(Import("qwen2-7b.json").model), 7'615'616'512);
}

TEST(HuggingFace, MapsEveryFieldOfGpt2) {
  const ModelSpec model = Import("gpt2-xl.json").model;
  EXPECT_EQ(model.name, "gpt2");
  EXPECT_EQ(model.layers, 48);
  EXPECT_EQ(model.hidden, 1600);
  EXPECT_EQ(model.heads, 25);
  EXPECT_EQ(model.kv_heads, 25);
  EXPECT_EQ(model.head_dim, 64);
  EXPECT_EQ(model.ffn_hidden, 6400);
  EXPECT_EQ(model.vocab, 50257);
  EXPECT_EQ(model.max_sequence, 1024);
  EXPECT_EQ(model.norm, NormKind::kLayerNorm);
  EXPECT_EQ(model.mlp, MlpKind::kGelu);
  EXPECT_EQ(model.positions, PositionKind::kLearned);
  EXPECT_TRUE(model.attention_bias);
  EXPECT_TRUE(model.output_bias);
  EXPECT_TRUE(model.mlp_bias);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.norm_epsilon, 1e-5);
}

TEST(HuggingFace, MapsEveryFieldOfLlama) {
  const ModelSpec model = Import("llama-3-8b.json").model;
  EXPECT_EQ(model.layers, 32);
  EXPECT_EQ(model.hidden, 4096);
  EXPECT_EQ(model.heads, 32);
  EXPECT_EQ(model.kv_heads, 8);
  EXPECT_EQ(model.head_dim, 128);
  EXPECT_EQ(model.ffn_hidden, 14336);
  EXPECT_EQ(model.vocab, 128256);
  EXPECT_EQ(model.max_sequence, 8192);
  EXPECT_EQ(model.norm, NormKind::kRmsNorm);
  EXPECT_EQ(model.mlp, MlpKind::kSwiglu);
  EXPECT_EQ(model.positions, PositionKind::kRope);
  EXPECT_FALSE(model.attention_bias);
  EXPECT_FALSE(model.output_bias);
  EXPECT_FALSE(model.mlp_bias);
  EXPECT_FALSE(model.tied_embeddings);
  EXPECT_EQ(model.rope_theta, 500000);
  EXPECT_EQ(model.norm_epsilon, 1e-5);
  EXPECT_EQ(model.attention_window, 0);
  EXPECT_EQ(Import("llama-2-7b.json").model.name, "Llama-2-7b-hf");
  EXPECT_EQ(Import("llama-2-7b.json").model.rope_theta, 10000);  // absent in the file
}

TEST(HuggingFace, Qwen2HasBiasesOnQueryKeyAndValueAlone) {
  const ModelSpec model = Import("qwen2-0.5b.json").model;
  EXPECT_TRUE(model.attention_bias);
  EXPECT_FALSE(model.output_bias);
  EXPECT_FALSE(model.mlp_bias);
  EXPECT_TRUE(model.tied_embeddings);
  EXPECT_EQ(model.norm_epsilon, 1e-6);
  EXPECT_EQ(model.rope_theta, 1e6);
  EXPECT_EQ(model.attention_window, 0);  // use_sliding_window is false
}

// The same models written by transformers 4.44 and 5.23, which moved rope_theta.
TEST(HuggingFace, ReadsWhatBothMajorVersionsOfTheLibraryWrite) {
  for (const std::string family : {"gpt2", "llama", "mistral", "qwen2"}) {
    const ImportedModel four = Import(family + "-written-by-transformers-4.44.json");
    const ImportedModel five = Import(family + "-written-by-transformers-5.23.json");
    EXPECT_EQ(four.model, five.model) << family;
    EXPECT_THAT(four.unknown, IsEmpty()) << family;
    EXPECT_THAT(five.unknown, IsEmpty()) << family;
  }
  EXPECT_EQ(Import("gpt2-written-by-transformers-4.44.json").model, Import("gpt2.json").model);
  EXPECT_EQ(ParameterCount(Import("llama-written-by-transformers-5.23.json").model), 1'100'048'384);
  EXPECT_EQ(ParameterCount(Import("mistral-written-by-transformers-5.23.json").model),
            7'241'732'096);
  EXPECT_EQ(ParameterCount(Import("qwen2-written-by-transformers-5.23.json").model), 494'032'768);
}

TEST(HuggingFace, AgreesWithTheCatalogue) {
  const auto catalogue = BuiltInCatalogue();
  ASSERT_TRUE(catalogue.has_value()) << catalogue.error().message;
  const std::pair<std::string, std::string> pairs[] = {{"gpt2.json", "gpt2-124m"},
                                                       {"gpt2-xl.json", "gpt2-xl"},
                                                       {"llama-2-7b.json", "llama2-7b"},
                                                       {"llama-3-8b.json", "llama3-8b"},
                                                       {"qwen2-0.5b.json", "qwen2-0.5b"},
                                                       {"qwen2-7b.json", "qwen2-7b"},
                                                       {"tinyllama-1.1b.json", "tinyllama-1.1b"}};
  for (const auto& [file, name] : pairs) {
    ModelSpec imported = Import(file).model;
    const ModelSpec listed = FindModel(*catalogue, name)->spec;
    imported.name = listed.name;
    imported.max_sequence = listed.max_sequence;  // the catalogue has the length used in training
    EXPECT_EQ(ToJson(imported), ToJson(listed));
  }
}

TEST(HuggingFace, ListsWhatItIgnoredAndWhatItDoesNotKnow) {
  const auto imported = ImportChanged("llama-3-8b.json", "new_field", "  \"new_field\": [1, 2]");
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  EXPECT_THAT(imported->unknown, ElementsAre("new_field"));
  EXPECT_THAT(imported->ignored, AllOf(Contains("torch_dtype"), Contains("bos_token_id"),
                                       Not(Contains("hidden_size"))));
}

TEST(HuggingFace, FillsInWhatTheLibraryFillsIn) {
  EXPECT_EQ(ImportChanged("llama-3-8b.json", "num_key_value_heads", "")->model.kv_heads, 32);
  EXPECT_EQ(ImportChanged("llama-3-8b.json", "head_dim", "\"head_dim\": 64")->model.head_dim, 64);
  EXPECT_EQ(ImportChanged("llama-3-8b.json", "head_dim", "\"head_dim\": null")->model.head_dim,
            128);
  EXPECT_EQ(ImportChanged("llama-3-8b.json", "rms_norm_eps", "")->model.norm_epsilon, 1e-6);
  EXPECT_EQ(ImportChanged("gpt2.json", "n_inner", "\"n_inner\": null")->model.ffn_hidden, 3072);
  EXPECT_EQ(ImportChanged("gpt2.json", "n_inner", "\"n_inner\": 1000")->model.ffn_hidden, 1000);
  EXPECT_FALSE(ImportChanged("gpt2.json", "tie_word_embeddings", "\"tie_word_embeddings\": false")
                   ->model.tied_embeddings);
}

TEST(HuggingFace, RefusesMissingAndBadShapesByName) {
  EXPECT_THAT(Invalid("gpt2.json", "n_layer", ""), HasSubstr("c.json: n_layer: is missing"));
  EXPECT_THAT(Invalid("gpt2.json", "n_embd", "\"n_embd\": -1"),
              AllOf(HasSubstr("n_embd"), HasSubstr("is -1")));
  EXPECT_THAT(Invalid("gpt2.json", "n_head", "\"n_head\": 7"),
              AllOf(HasSubstr("n_embd: 768"), HasSubstr("n_head 7")));
  EXPECT_THAT(Invalid("qwen2-7b.json", "num_key_value_heads", ""),
              HasSubstr("num_key_value_heads: is missing"));
  EXPECT_THAT(Invalid("llama-3-8b.json", "num_key_value_heads", "\"num_key_value_heads\": 5"),
              HasSubstr("kv_heads 5: must divide heads 32; nearest: 4"));
  EXPECT_THAT(Invalid("llama-3-8b.json", "vocab_size", "\"vocab_size\": \"many\""),
              HasSubstr("vocab_size"));
  EXPECT_THAT(Invalid("llama-3-8b.json", "model_type", ""),
              AllOf(HasSubstr("model_type: is missing"), HasSubstr("gpt2, gpt_bigcode, gptj")));
}

TEST(HuggingFace, RefusesAnUnknownModelTypeWithTheListOfThoseSupported) {
  EXPECT_THAT(
      Unsupported("llama-3-8b.json", "model_type", "\"model_type\": \"qwen3_mo\""),
      AllOf(HasSubstr("\"qwen3_mo\" is not supported"), HasSubstr("gpt2, gpt_bigcode, gptj"),
            HasSubstr("Did you mean \"qwen3_moe\"?")));
}

TEST(HuggingFace, RefusesModelTypesThatAreNoDecoderOfAttentionWithTheReason) {
  const auto why = [](const std::string& type) {
    return Unsupported("llama-3-8b.json", "model_type", "\"model_type\": \"" + type + "\"");
  };
  for (const char* type : {"umt5", "bart", "whisper"}) {
    EXPECT_THAT(why(type), HasSubstr("encoder and a decoder")) << type;
  }
  for (const char* type : {"jamba", "qwen3_next", "nemotron_h"}) {
    EXPECT_THAT(why(type), HasSubstr("take turns of attention with a state-space")) << type;
  }
  EXPECT_THAT(why("mamba"), HasSubstr("state-space model without attention"));
  EXPECT_THAT(why("distilbert"), HasSubstr("is an encoder"));
  EXPECT_THAT(why("gemma3"), HasSubstr("text_config"));
}

TEST(HuggingFace, RefusesWhatTheSpecCannotExpress) {
  EXPECT_THAT(Unsupported("gpt2.json", "activation_function", "\"activation_function\": \"silu\""),
              AllOf(HasSubstr("activation_function"), HasSubstr("silu"), HasSubstr("gelu_new")));
  EXPECT_THAT(Unsupported("llama-3-8b.json", "hidden_act", "\"hidden_act\": \"gelu\""),
              HasSubstr("must be one of silu"));
  EXPECT_THAT(Unsupported("gpt2.json", "scale_attn_weights", "\"scale_attn_weights\": false"),
              HasSubstr("scale_attn_weights: must be true"));
  EXPECT_THAT(Unsupported("gpt2.json", "x", "\"scale_attn_by_inverse_layer_idx\": true"),
              HasSubstr("must be false"));
  EXPECT_THAT(Unsupported("gpt2.json", "x", "\"add_cross_attention\": true"),
              HasSubstr("only decoders"));
  EXPECT_THAT(Unsupported("gpt2.json", "x", "\"pruned_heads\": {\"1\": [0]}"),
              HasSubstr("pruned_heads"));
  EXPECT_THAT(Unsupported("llama-3-8b.json", "x", "\"partial_rotary_factor\": 0.01"),
              HasSubstr("must turn pairs"));
}

TEST(HuggingFace, LlamaBiasesOnAttentionAndMlpTogetherCoverAllProjections) {
  const auto imported = ImportChanged("llama-3-8b.json", "attention_bias",
                                      "\"attention_bias\": true, \"mlp_bias\": true");
  ASSERT_TRUE(imported.has_value()) << imported.error().message;
  // q, k, v: 4096 + 2 * 1024; output 4096; gate and up 2 * 14336; down 4096; 32 layers.
  EXPECT_EQ(ParameterCount(imported->model), 8'030'261'248 + 32 * (6144 + 4096 + 28672 + 4096));
}

// 0.1 ln 40 + 1 = 1.368888. Sines are multiplied by the quotient of both scales, 1.0; scores by the
// square of the scale of mscale_all_dim.
TEST(HuggingFace, ReadsTheNumbersOfStretchedPositions) {
  const ModelSpec llama = Import("llama-3.1-8b.json").model;
  EXPECT_EQ(llama.rope_factor, 8);
  EXPECT_EQ(llama.rope_original, 8192);
  EXPECT_EQ(llama.rope_low, 1);
  EXPECT_EQ(llama.rope_high, 4);
  const auto yarn =
      ImportChanged("llama-3-8b.json", "rope_scaling",
                    "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"beta_fast\": 16, "
                    "\"original_max_position_embeddings\": 4096, \"truncate\": false}");
  ASSERT_TRUE(yarn.has_value()) << yarn.error().message;
  EXPECT_EQ(yarn->model.rope_low, 1);
  EXPECT_EQ(yarn->model.rope_high, 16);
  EXPECT_EQ(yarn->model.rope_original, 4096);
  EXPECT_FALSE(yarn->model.rope_whole_pairs);
  EXPECT_NEAR(yarn->model.rope_magnitude, 1.368888, 1e-6);
  const auto scaled =
      ImportChanged("llama-3-8b.json", "rope_scaling",
                    "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"mscale\": 1.0, "
                    "\"mscale_all_dim\": 1.0}");
  ASSERT_TRUE(scaled.has_value()) << scaled.error().message;
  EXPECT_EQ(scaled->model.rope_magnitude, 1);
  EXPECT_EQ(scaled->model.rope_high, 32);
  EXPECT_EQ(scaled->model.rope_original, 8192);
}

TEST(HuggingFace, ReadsHowRotaryPositionsAreScaledAndHowMuchOfAHeadTurns) {
  EXPECT_EQ(Import("llama-3.1-8b.json").model.rope_scaling, RopeScaling::kLlama3);
  const auto model = [](const char* line) {
    const auto imported = ImportChanged("llama-3-8b.json", "rope_scaling", line);
    EXPECT_TRUE(imported.has_value()) << imported.error().message;
    return imported.has_value() ? imported->model : ModelSpec{};
  };
  EXPECT_EQ(model("\"rope_scaling\": {\"rope_type\": \"default\"}").rope_scaling,
            RopeScaling::kNone);
  EXPECT_EQ(model("\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}").rope_scaling,
            RopeScaling::kLinear);
  EXPECT_EQ(model("\"partial_rotary_factor\": 0.25").rotary_dim, 32);
  EXPECT_THAT(Unsupported("llama-3-8b.json", "rope_scaling", "\"rope_scaling\": {\"type\": \"x\"}"),
              HasSubstr("set it to null"));
  EXPECT_THAT(Unsupported("llama-3-8b.json", "x",
                          "\"rope_parameters\": {\"chunked\": {\"rope_theta\": 1.0}}"),
              HasSubstr("different positions"));
  EXPECT_THAT(Invalid("llama-3-8b.json", "x", "\"rope_parameters\": {\"rope_theta\": 1.0}"),
              HasSubstr("contradicts"));
}

TEST(HuggingFace, ReadsTheWindowOfAllLayers) {
  const ImportedModel mistral = Import("mistral-7b-v0.1.json");
  EXPECT_EQ(mistral.model.attention_window, 4096);
  EXPECT_EQ(mistral.model.global_attention_every, 0);
  EXPECT_EQ(mistral.model.max_sequence, 32768);
  EXPECT_TRUE(mistral.notes.empty());
  const auto window = [](const char* written) {
    return ImportChanged("mistral-7b-v0.1.json", "sliding_window", written)->model.attention_window;
  };
  EXPECT_EQ(window("\"sliding_window\": null"), 0);
  EXPECT_EQ(window("\"sliding_window\": 32768"), 0);  // as long as any sequence
  EXPECT_EQ(window("\"sliding_window\": 32767"), 32767);
  EXPECT_EQ(window(""), 4096);  // default of the library
}

// qwen2-7b has use_sliding_window false, a window of 131072 for 131072 positions, and no window in
// the first 28 of 28 layers. Each of these means no window.
TEST(HuggingFace, ReadsWhichLayersOfQwen2HaveAWindow) {
  const auto changed = [](std::string text, const std::string& name, const std::string& to) {
    const auto at = text.find("\"" + name + "\"");
    return text.replace(at, text.find(',', at) - at, "\"" + name + "\": " + to);
  };
  const auto model = [](const std::string& text) {
    const auto imported = ModelFromHuggingFace(text, "c.json");
    EXPECT_TRUE(imported.has_value()) << imported.error().message;
    return imported.has_value() ? imported->model : ModelSpec{};
  };
  EXPECT_EQ(ImportChanged("qwen2-7b.json", "use_sliding_window", "\"use_sliding_window\": true")
                ->model.attention_window,
            0);
  const std::string narrow =
      changed(Changed("qwen2-7b.json", "use_sliding_window", "\"use_sliding_window\": true"),
              "sliding_window", "4096");
  EXPECT_EQ(model(narrow).attention_window, 0);
  EXPECT_EQ(model(changed(narrow, "max_window_layers", "0")).attention_window, 4096);
  const auto mixed = ModelFromHuggingFace(changed(narrow, "max_window_layers", "10"), "c.json");
  ASSERT_FALSE(mixed.has_value());
  EXPECT_EQ(mixed.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(mixed.error().message, HasSubstr("max_window_layers: 10"));
}

// As in Gemma 3, where every sixth layer has no window.
TEST(HuggingFace, ReadsEveryNthLayerWithoutAWindowFromLayerTypes) {
  const auto types = [](int layers, int every) {
    std::string text = "\"layer_types\": [";
    for (int i = 0; i < layers; ++i) {
      text += i == 0 ? "" : ", ";
      text += (i + 1) % every == 0 ? "\"full_attention\"" : "\"sliding_attention\"";
    }
    return text + "]";
  };
  const auto model = [&](int layers, int every) {
    return ImportChanged("mistral-7b-v0.1.json", "x", types(layers, every))->model;
  };
  EXPECT_EQ(model(32, 6).attention_window, 4096);
  EXPECT_EQ(model(32, 6).global_attention_every, 6);
  EXPECT_EQ(model(32, 100).attention_window, 4096);
  EXPECT_EQ(model(32, 100).global_attention_every, 0);
  EXPECT_EQ(model(32, 1).attention_window, 0);
  EXPECT_EQ(model(32, 1).global_attention_every, 0);
  EXPECT_THAT(Unsupported("mistral-7b-v0.1.json", "x", types(31, 6)), HasSubstr("every layer"));
  EXPECT_THAT(Unsupported("mistral-7b-v0.1.json", "x",
                          "\"layer_types\": [\"sliding_attention\", \"full_attention\"]"),
              HasSubstr("every n-th"));
  EXPECT_EQ(ImportChanged("qwen2-7b.json", "x", "\"layer_types\": [\"full_attention\"]")
                ->model.attention_window,
            0);
  EXPECT_THAT(Unsupported("qwen2-7b.json", "x", "\"layer_types\": [\"linear_attention\"]"),
              HasSubstr("linear_attention"));
}

TEST(HuggingFace, RefusesHostileText) {
  EXPECT_FALSE(ModelFromHuggingFace("", "c.json").has_value());
  EXPECT_FALSE(ModelFromHuggingFace("[]", "c.json").has_value());
  EXPECT_FALSE(ModelFromHuggingFace(std::string(100'000, '['), "c.json").has_value());
  EXPECT_THAT(Invalid("gpt2.json", "n_embd", "\"n_embd\": 9223372036854775808"),
              HasSubstr("n_embd"));
  EXPECT_THAT(Invalid("gpt2.json", "n_embd", "\"n_embd\": 768.5"), HasSubstr("n_embd"));
  const auto twice = ImportChanged("gpt2.json", "x", "\"n_embd\": 1");
  ASSERT_FALSE(twice.has_value());
  EXPECT_THAT(twice.error().message, HasSubstr("twice"));
}

}  // namespace
}  // namespace foretrain
