// ClusterSpec as JSON, for --cluster FILE and for the store.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "sim/config/catalogue/catalogue.h"
#include "sim/config/cluster/cluster_spec.h"

namespace foretrain {

class JsonFields;
class JsonWriter;

// Parses a cluster: an object with the fields of ClusterSpec. `device` is required. It is an object
// with the fields of DeviceSpec, or the name of a GPU in `catalogue`. Missing fields are as in
// ClusterSpec{} and DeviceSpec{}; with a named GPU, network and links are as MakeCluster fills them
// in.
//
//   file  source of `text`, for messages
//
// Errors name file, field, value and remedy: not JSON, an unknown or missing field, a value out of
// range, an unknown GPU, or anything that ValidateCluster refuses. O(bytes); safe from any thread.
Result<ClusterSpec> ClusterFromJson(std::string_view text, std::string_view file,
                                    const Catalogue& catalogue);

// Reads the same from an object within another text; finishes `fields`.
Result<ClusterSpec> ReadCluster(JsonFields& fields, const Catalogue& catalogue);

// Writes all fields of `cluster`, indented by two spaces. Reads back to an equal ClusterSpec.
std::string ToJson(const ClusterSpec& cluster);
void WriteJson(JsonWriter& writer, const ClusterSpec& cluster);

}  // namespace foretrain
