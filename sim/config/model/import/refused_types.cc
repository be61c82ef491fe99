// Known model types that a ModelSpec cannot describe, with the reason.
#include <array>

#include "sim/config/model/import/families.h"
#include "sim/config/rules/refuse.h"

namespace foretrain {
namespace {

struct Reason {
  std::string_view why;
  std::string_view types;  // with a space around each
};
constexpr std::array kReasons = {
    Reason{"it has an encoder and a decoder of another kind than T5's; those are not modelled",
           " umt5 longt5 byt5 bart mbart blenderbot blenderbot-small pegasus pegasus_x "
           "bigbird_pegasus marian m2m_100 nllb-moe whisper led prophetnet plbart fsmt "
           "switch_transformers speech_to_text seamless_m4t t5gemma "},
    Reason{"it is an encoder of another kind than BERT; those are not modelled",
           " xlm-roberta-xl distilbert albert electra deberta deberta-v2 "
           "camembert megatron-bert modernbert mpnet funnel longformer big_bird convbert ernie "
           "nomic_bert roformer rembert "},
    Reason{"its layers are a state-space model without attention, which is not modelled",
           " mamba mamba2 falcon_mamba rwkv xlstm "},
    Reason{"its layers take turns of attention with a state-space model or linear attention, which "
           "are not modelled",
           " jamba bamba zamba zamba2 falcon_h1 nemotron_h granitemoehybrid recurrent_gemma "
           "qwen3_next qwen3_5 qwen3_5_moe qwen3_5_text qwen3_5_moe_text kimi_linear minimax lfm2 "
           "lfm2_moe olmo_hybrid bailing_hybrid "},
    Reason{"it joins a language model with others; give the object text_config as a file of its "
           "own",
           " gemma3 gemma4 llama4 mllama llava llava_next qwen2_vl qwen2_5_vl qwen3_vl paligemma "
           "idefics2 idefics3 pixtral mistral3 internvl glm4v aya_vision "},
    Reason{"its norms have no weights, or its layers' positions depend on their window",
           " olmo exaone4 "},
    Reason{"layers of its kinds of attention take turns in an order that is not modelled",
           " gpt_neo gemma3n_text gemma4_text "},
};

}  // namespace

std::string_view WhyNotAModel(std::string_view type) {
  const std::string word = fmt::format(" {} ", type);
  for (const Reason& reason : kReasons) {
    if (reason.types.find(word) != std::string_view::npos) return reason.why;
  }
  return {};
}

}  // namespace foretrain
