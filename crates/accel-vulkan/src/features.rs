//! Which features a device must have, which are turned on where present, and the limits for lowering.

use std::ffi::CStr;

use accel_kernels::{DeviceCaps, DeviceKind, MatrixTuple, Tuning};
use ash::{khr, vk};

use crate::instance::Instance;
use crate::matrices;

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR`, which ash 0.38 lacks.
#[repr(C)]
struct ShaderBfloat16Features {
    s_type: vk::StructureType,
    p_next: *mut std::ffi::c_void,
    types: vk::Bool32,
    dot_product: vk::Bool32,
    cooperative_matrix: vk::Bool32,
}

const SHADER_BFLOAT16: &CStr = c"VK_KHR_shader_bfloat16";

impl Default for ShaderBfloat16Features {
    fn default() -> Self {
        Self {
            s_type: vk::StructureType::from_raw(1_000_141_000),
            p_next: std::ptr::null_mut(),
            types: 0,
            dot_product: 0,
            cooperative_matrix: 0,
        }
    }
}

// SAFETY: begins with sType and pNext and has the layout of the registry's structure.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for ShaderBfloat16Features {}

// SAFETY: as above.
unsafe impl vk::TaggedStructure for ShaderBfloat16Features {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(1_000_141_000);
}

/// Features that a device offers, and then those that are turned on.
#[derive(Default)]
pub(crate) struct Features {
    core: vk::PhysicalDeviceFeatures,
    v11: vk::PhysicalDeviceVulkan11Features<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    v13: vk::PhysicalDeviceVulkan13Features<'static>,
    matrix: Option<vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>>,
    bfloat16: Option<ShaderBfloat16Features>,
}

impl Features {
    /// Asks the device what it offers.
    pub(crate) fn query(instance: &ash::Instance, device: vk::PhysicalDevice) -> Self {
        // SAFETY: the instance and its physical devices are alive.
        let extensions =
            unsafe { instance.enumerate_device_extension_properties(device) }.unwrap_or_default();
        let has =
            |name: &CStr| extensions.iter().any(|e| e.extension_name_as_c_str().is_ok_and(|n| n == name));
        let mut offered = Self {
            matrix: has(khr::cooperative_matrix::NAME).then(Default::default),
            bfloat16: has(SHADER_BFLOAT16).then(Default::default),
            ..Self::default()
        };
        let mut chain = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut offered.v11)
            .push_next(&mut offered.v12)
            .push_next(&mut offered.v13);
        if let Some(matrix) = &mut offered.matrix {
            chain = chain.push_next(matrix);
        }
        if let Some(bfloat16) = &mut offered.bfloat16 {
            chain = chain.push_next(bfloat16);
        }
        // SAFETY: well-formed; the chained structures live in `offered`.
        unsafe { instance.get_physical_device_features2(device, &mut chain) };
        offered.core = chain.features;
        offered.unchain();
        offered
    }

    /// The first required feature that is missing.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        [
            (self.core.shader_int16, "shaderInt16"),
            (self.core.shader_int64, "shaderInt64"),
            (self.v11.storage_buffer16_bit_access, "storageBuffer16BitAccess"),
            (self.v12.storage_buffer8_bit_access, "storageBuffer8BitAccess"),
            (self.v12.shader_int8, "shaderInt8"),
            (self.v12.shader_float16, "shaderFloat16"),
            (self.v12.scalar_block_layout, "scalarBlockLayout"),
            (self.v12.timeline_semaphore, "timelineSemaphore"),
            (self.v12.buffer_device_address, "bufferDeviceAddress"),
            (self.v12.vulkan_memory_model, "vulkanMemoryModel"),
            (self.v13.synchronization2, "synchronization2"),
            (self.v13.maintenance4, "maintenance4"),
        ]
        .into_iter()
        .find_map(|(present, name)| (present == vk::FALSE).then_some(name))
    }

    /// Drops what we never use, so that only what kernels may rely on is turned on.
    pub(crate) fn restrict(self) -> Self {
        let bfloat16 = self.bfloat16.filter(|f| f.types == vk::TRUE);
        Self {
            core: vk::PhysicalDeviceFeatures {
                shader_int16: self.core.shader_int16,
                shader_int64: self.core.shader_int64,
                shader_float64: self.core.shader_float64,
                ..Default::default()
            },
            v11: vk::PhysicalDeviceVulkan11Features {
                storage_buffer16_bit_access: self.v11.storage_buffer16_bit_access,
                uniform_and_storage_buffer16_bit_access: self.v11.uniform_and_storage_buffer16_bit_access,
                ..Default::default()
            },
            v12: vk::PhysicalDeviceVulkan12Features {
                storage_buffer8_bit_access: self.v12.storage_buffer8_bit_access,
                uniform_and_storage_buffer8_bit_access: self.v12.uniform_and_storage_buffer8_bit_access,
                shader_buffer_int64_atomics: self.v12.shader_buffer_int64_atomics,
                shader_float16: self.v12.shader_float16,
                shader_int8: self.v12.shader_int8,
                scalar_block_layout: self.v12.scalar_block_layout,
                shader_subgroup_extended_types: self.v12.shader_subgroup_extended_types,
                timeline_semaphore: self.v12.timeline_semaphore,
                buffer_device_address: self.v12.buffer_device_address,
                vulkan_memory_model: self.v12.vulkan_memory_model,
                vulkan_memory_model_device_scope: self.v12.vulkan_memory_model_device_scope,
                ..Default::default()
            },
            v13: vk::PhysicalDeviceVulkan13Features {
                subgroup_size_control: self.v13.subgroup_size_control,
                compute_full_subgroups: self.v13.compute_full_subgroups,
                synchronization2: self.v13.synchronization2,
                shader_integer_dot_product: self.v13.shader_integer_dot_product,
                maintenance4: self.v13.maintenance4,
                ..Default::default()
            },
            matrix: self
                .matrix
                .filter(|f| f.cooperative_matrix == vk::TRUE)
                .map(|_| vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true)),
            bfloat16,
        }
    }

    /// Whether subgroup matrices are offered.
    pub(crate) fn subgroup_matrices(&self) -> bool {
        self.matrix.as_ref().is_some_and(|f| f.cooperative_matrix == vk::TRUE)
            && self.v12.vulkan_memory_model == vk::TRUE
    }

    /// Whether matrices may hold BF16.
    pub(crate) fn bfloat16_matrices(&self) -> bool {
        self.bfloat16.as_ref().is_some_and(|f| f.cooperative_matrix == vk::TRUE)
    }

    /// Extensions that the turned-on features need.
    pub(crate) fn extensions(&self) -> Vec<*const std::ffi::c_char> {
        let matrix = self.matrix.as_ref().map(|_| khr::cooperative_matrix::NAME.as_ptr());
        let bfloat16 = self.bfloat16.as_ref().map(|_| SHADER_BFLOAT16.as_ptr());
        matrix.into_iter().chain(bfloat16).collect()
    }

    /// Calls `make` with the chain of structures to turn on.
    pub(crate) fn chain<R>(&mut self, make: impl FnOnce(&mut vk::PhysicalDeviceFeatures2<'_>) -> R) -> R {
        let mut chain = vk::PhysicalDeviceFeatures2::default()
            .features(self.core)
            .push_next(&mut self.v11)
            .push_next(&mut self.v12)
            .push_next(&mut self.v13);
        if let Some(matrix) = &mut self.matrix {
            chain = chain.push_next(matrix);
        }
        if let Some(bfloat16) = &mut self.bfloat16 {
            chain = chain.push_next(bfloat16);
        }
        let made = make(&mut chain);
        self.unchain();
        made
    }

    fn unchain(&mut self) {
        let null = std::ptr::null_mut();
        self.v11.p_next = null;
        self.v12.p_next = null;
        self.v13.p_next = null;
        if let Some(matrix) = &mut self.matrix {
            matrix.p_next = null;
        }
        if let Some(bfloat16) = &mut self.bfloat16 {
            bfloat16.p_next = null;
        }
    }
}

/// What a physical device is.
#[derive(Clone)]
pub(crate) struct Properties {
    /// Limits and features for lowering, without matrices.
    pub(crate) caps: DeviceCaps,
    /// Matrix shapes that the driver lists.
    pub(crate) matrices: Vec<MatrixTuple>,
    pub(crate) uuid: [u8; 16],
    pub(crate) vendor_id: u32,
    pub(crate) device_id: u32,
    pub(crate) api_version: u32,
    pub(crate) driver_version: u32,
    /// Name and version of the driver, for people.
    pub(crate) driver: String,
    /// Nanoseconds of a timestamp tick.
    pub(crate) timestamp_period: f32,
    /// Subgroups can differ in size between pipelines unless a size is required.
    pub(crate) subgroup_size_varies: bool,
    /// What the features do not tell: the reason why the device cannot be used.
    pub(crate) unsuitable: Option<&'static str>,
}

impl Properties {
    /// Asks the device for its properties.
    pub(crate) fn query(instance: &Instance, device: vk::PhysicalDevice, features: &Features) -> Self {
        let matrices = matrices::offered(instance, device, features);
        let instance = &instance.raw;
        let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Properties::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
        let mut chain = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut v11)
            .push_next(&mut v12)
            .push_next(&mut v13);
        // SAFETY: well-formed; the instance and its physical devices are alive.
        unsafe { instance.get_physical_device_properties2(device, &mut chain) };
        let base = chain.properties;
        let limits = base.limits;
        let text =
            |name: Result<&CStr, _>| name.map_or(String::new(), |n: &CStr| n.to_string_lossy().into_owned());
        let needed = vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::ARITHMETIC;
        let unsuitable =
            if vk::api_version_major(base.api_version) == 1 && vk::api_version_minor(base.api_version) < 3 {
                Some("it does not support Vulkan 1.3")
            } else if !v11.subgroup_supported_operations.contains(needed)
                || !v11.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE)
            {
                Some("it lacks subgroup arithmetic in compute shaders")
            } else {
                None
            };
        Self {
            caps: DeviceCaps {
                name: text(base.device_name_as_c_str()),
                kind: match base.device_type {
                    vk::PhysicalDeviceType::CPU => DeviceKind::Cpu,
                    vk::PhysicalDeviceType::DISCRETE_GPU | vk::PhysicalDeviceType::VIRTUAL_GPU => {
                        DeviceKind::Discrete
                    }
                    _ => DeviceKind::Integrated,
                },
                subgroup_size: v11.subgroup_size,
                max_workgroup_invocations: limits.max_compute_work_group_invocations,
                max_workgroup_count: limits.max_compute_work_group_count,
                shared_memory_bytes: limits.max_compute_shared_memory_size,
                push_constant_bytes: limits.max_push_constants_size,
                max_allocation_bytes: v11.max_memory_allocation_size.min(v13.max_buffer_size),
                float64: features.core.shader_float64 == vk::TRUE,
                exact_half: v12.shader_rounding_mode_rte_float16 == vk::TRUE
                    && v12.shader_denorm_preserve_float16 == vk::TRUE,
                // Filled by the start-up self-test.
                matrices: Vec::new(),
                packs_matrices: false,
                matrix_geometry: None,
                tuning: Tuning::default(),
            },
            matrices,
            uuid: v11.device_uuid,
            vendor_id: base.vendor_id,
            device_id: base.device_id,
            api_version: base.api_version,
            driver_version: base.driver_version,
            driver: format!("{} {}", text(v12.driver_name_as_c_str()), text(v12.driver_info_as_c_str())),
            timestamp_period: limits.timestamp_period,
            subgroup_size_varies: v13.min_subgroup_size != v13.max_subgroup_size
                && v13.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE)
                && features.v13.subgroup_size_control == vk::TRUE,
            unsuitable,
        }
    }
}
