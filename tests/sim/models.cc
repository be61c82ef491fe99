#include "tests/sim/models.h"

namespace foretrain {

ModelSpec Gpt2() {
  ModelSpec model;
  model.layers = 12;
  model.hidden = 768;
  model.heads = model.kv_heads = 12;
  model.head_dim = 64;
  model.ffn_hidden = 3072;
  model.vocab = 50257;
  model.max_sequence = 1024;
  return model;
}

ModelSpec SmallGpt() {
  ModelSpec model;
  model.layers = 4;
  model.hidden = 16;
  model.heads = model.kv_heads = 4;
  model.head_dim = 4;
  model.ffn_hidden = 64;
  model.vocab = 32;
  model.max_sequence = 8;
  return model;
}

}  // namespace foretrain
