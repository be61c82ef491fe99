// The tensor that blocks of an encoder-decoder hand on. It holds the rows of both stacks and their
// tables of relative positions, so the blocks form one chain: gradients, pipeline stages and
// recomputation work as in a decoder. A layer computes the rows of its stack and copies the rest,
// and the encoder's output thus reaches all decoder layers, from stage to stage.
//
//   [ decoder rows | decoder table | encoder table | encoder rows ]
//
// Rows of a stack: [micro_batch * its sequence, hidden]. A table: [buckets, heads / tp].
#pragma once

#include <cstdint>

#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"

namespace foretrain {

// A range of the stream's elements.
struct StreamPart {
  std::int64_t first = 0;
  std::int64_t elements = 0;
  std::int64_t End() const { return first + elements; }
};

struct Stream {
  StreamPart decoder, decoder_table, encoder_table, encoder;

  Stream(const ModelSpec& model, const Plan& plan) {
    const std::int64_t width = plan.micro_batch * model.hidden;
    const std::int64_t table = model.relative_buckets * (model.heads / plan.tp);
    decoder = {0, plan.DecoderSequence() * width};
    decoder_table = {decoder.End(), table};
    encoder_table = {decoder_table.End(), table};
    encoder = {encoder_table.End(), plan.EncoderSequence() * width};
  }
  std::int64_t Elements() const { return encoder.End(); }
};

}  // namespace foretrain
