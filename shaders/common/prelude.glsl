// What every kernel shares: extensions, typed pointers, the flat workgroup index.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : enable

layout(buffer_reference, scalar, buffer_reference_align = 1) buffer PtrU8 { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer PtrI8 { int8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer PtrU16 { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer PtrI16 { int16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer PtrF16 { float16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer PtrU32 { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer PtrI32 { int v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer PtrF32 { float v; };

// Workgroup counts beyond a device's limit of one dimension are folded into y and z by the host.
uint64_t flat_group() {
    return (uint64_t(gl_WorkGroupID.z) * gl_NumWorkGroups.y + gl_WorkGroupID.y) * gl_NumWorkGroups.x + gl_WorkGroupID.x;
}
