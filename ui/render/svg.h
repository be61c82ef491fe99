// Writes a frame as SVG: shapes and texts as vectors, pictures of pixels embedded.
#pragma once

#include <functional>
#include <string>

#include "ui/view/widgets/canvas.h"

struct ImDrawData;

namespace foretrain::ui {

// The pixels of a texture that a frame shows; empty if there are none.
using ReadTexture = std::function<Image(void* texture)>;

// A frame as Dear ImGui has recorded it (ImGui::GetDrawData) and the record of its texts, which
// become texts that can be searched. Each text keeps its place and width in any font.
// Icons are left out.
std::string SvgOf(const ImDrawData& data, const FrameRecord& record, Colour ground,
                  const ReadTexture& read);

// `image` as base64 of a PNG with alpha, for a data URI; empty if it has no pixels.
std::string PngBase64(const Image& image);

}  // namespace foretrain::ui
