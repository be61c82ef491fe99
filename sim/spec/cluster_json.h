// ClusterSpec as JSON: what --cluster FILE reads and the store keeps.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/spec/catalogue.h"
#include "sim/spec/cluster_spec.h"

namespace foretrain {

class JsonFields;
class JsonWriter;

// The cluster in `text`: an object with the fields of ClusterSpec. `device` is an object with the
// fields of DeviceSpec, or the name of a GPU of `catalogue`; only device is a must. What is missing
// is as in ClusterSpec{} and DeviceSpec{}, and with a named GPU the network and the link are as
// MakeCluster fills them in.
//
//   file  where `text` comes from, for messages
//
// Errors: naming file, field, value and remedy: not JSON, an unknown or missing field, a value out
// of range, an unknown GPU, and what ValidateCluster refuses. O(bytes); safe from any thread.
Result<ClusterSpec> ClusterFromJson(std::string_view text, std::string_view file,
                                    const Catalogue& catalogue);

// The same from an object that is part of another text; finishes `fields`.
Result<ClusterSpec> ReadCluster(JsonFields& fields, const Catalogue& catalogue);

// All fields of `cluster`, two spaces a level. Reads back to an equal ClusterSpec.
std::string ToJson(const ClusterSpec& cluster);
void WriteJson(JsonWriter& writer, const ClusterSpec& cluster);

}  // namespace foretrain
